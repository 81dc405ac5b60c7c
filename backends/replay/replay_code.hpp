#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/kernel/hash.hpp"
#include "sim/kernel/memory_ledger.hpp"
#include "sim/kernel/rank_clock.hpp"

#include "sim/hardware/device.hpp"
#include "sim/hardware/kernels/kernel_seconds.hpp"

#include "backends/program/program_tables.hpp"
#include "backends/replay/rank_programs.hpp"

// The parts of a program that are the same for all ranks that have it, computed once.
namespace shardsim {

/// Memory, operations and hash of a program: they depend on no time.
class ProgramDigest {
 public:
  explicit ProgramDigest(const RankProgram& program);
  ProgramDigest(const ProgramDigest&) = delete;
  ProgramDigest& operator=(const ProgramDigest&) = delete;

  [[nodiscard]] const MemoryLedger& ledger() const { return ledger_; }
  [[nodiscard]] const MemoryLedger& host_ledger() const { return host_ledger_; }
  /// As World::executed_flops.
  [[nodiscard]] double flops() const { return flops_; }
  /// Rows of its tallies, in their order.
  [[nodiscard]] const std::vector<std::uint32_t>& tallies() const { return tallies_; }
  /// The hash of the stretch before each wait, in their order; joining a group waits, too.
  [[nodiscard]] std::uint64_t stretch(std::size_t wait) const { return stretches_[wait]; }
  /// The stretch that is open at the end.
  [[nodiscard]] const RollingHash& last_stretch() const { return hash_.stretch(); }

 private:
  // A group as its calls are hashed.
  struct Group {
    std::uint64_t path = 0;
    std::int64_t num_collectives = 0;
  };
  void allocate(const ProgramAllocation& allocation);
  void release(const ProgramAllocation& allocation);
  void post(Group& group, const ProgramCall& call);
  void wait();

  RankHash hash_;
  MemoryLedger ledger_{hash_.stretch()};
  MemoryLedger host_ledger_{hash_.stretch()};
  double flops_ = 0.0;
  std::vector<std::uint32_t> tallies_;
  std::vector<std::uint64_t> stretches_;
};

/// The call that splits a group, for a new group `name`, which outlives it.
[[nodiscard]] ProgramCall split_call(const std::string& name);

/// The steps of a program that need a rank's clock, on ranks of one speed. All work between two
/// calls is one stretch.
struct ReplayCode {
  /// `prices`: of operations, and behind them of holes.
  /// `asked`: steps of the program whose time somebody wants to know, ascending.
  ReplayCode(const RankProgram& program, const std::vector<Price>& prices, const StreamRules& rules,
             const std::set<std::size_t>& asked);

  std::vector<ProgramStep> steps;  ///< The row of `compute` is a stretch.
  std::vector<ClockStretch> stretches;
  std::vector<std::size_t> asked;  ///< Steps of the code that those that were asked for precede.
  /// Events are numbered anew: one that nobody waits for any more leaves its place to others.
  std::uint32_t num_events = 0;
};

/// Prices, digests and codes of the programs of a run, each made when it is first asked for.
class ReplayCodes {
 public:
  /// `prepared`: those that it looks among first, which are not changed meanwhile; null: none. All
  /// outlive it.
  /// `hole_factor`: as ReplayOptions has it.
  ReplayCodes(const Device& device, const RankPrograms& programs, const ReplayCodes* prepared,
              double hole_factor = 1.0);

  /// By row of operations, and then of holes, on ranks that are slower by a factor.
  [[nodiscard]] const std::vector<Price>& prices(double slowdown);
  [[nodiscard]] const ProgramDigest& digest(const RankProgram& program);
  /// `asked`: as ReplayCode's, and always the same for a program.
  [[nodiscard]] const ReplayCode& code(const RankProgram& program, double slowdown,
                                       const std::set<std::size_t>& asked = {});
  /// Makes digests and codes of all programs.
  void prepare(double slowdown);

 private:
  template <class Key, class Value>
  static const Value* known(const std::map<Key, Value>& values, const Key& key) {
    const auto found = values.find(key);
    return found == values.end() ? nullptr : &found->second;
  }
  const Device& device_;
  const RankPrograms& programs_;
  const ReplayCodes* prepared_;
  double hole_factor_;
  StreamRules rules_;
  std::map<double, std::vector<Price>> prices_;
  std::map<const RankProgram*, ProgramDigest> digests_;
  std::map<std::pair<const RankProgram*, double>, ReplayCode> codes_;
};

/// Adds the words of a hole to a rank's hash: its times are part of the program.
void add_hole(RankHash& hash, const ProgramHole& hole);

/// Adds the word of a step that is about streams and events.
void add_stream_step(RankHash& hash, const ProgramStep& step);

/// Adds the words of a call to a rank's hash; `path`: its group's.
void hash_call(RankHash& hash, std::uint64_t path, const ProgramCall& call);

/// The call of a message, which is all of `call` or a part of its batch.
[[nodiscard]] CallRecord record_of(const ProgramMessage& message, const ProgramCall& call);

}  // namespace shardsim

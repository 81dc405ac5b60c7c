#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "sim/kernel/diagnosis.hpp"

#include "sim/hardware/cluster.hpp"

#include "backends/fiber/call_repair.hpp"
#include "backends/fiber/fiber_watch.hpp"
#include "backends/fiber/mailbox.hpp"

#include "sim/harness/rank_context.hpp"
#include "sim/harness/schedule.hpp"
#include "sim/harness/shown_state.hpp"

// One run of a program under one schedule.
namespace shardsim {

/// A decision about an open receive, among at least two messages or receives.
struct Decision {
  std::uint16_t taken = 0;
  std::vector<MessageChoice> choices;
};

/// Decides by a list, then by virtual time, and writes down what it has decided.
class ListChooser : public MessageChooser {
 public:
  explicit ListChooser(std::vector<std::uint16_t> list = {}) : list_(std::move(list)) {}

  std::size_t choose(std::span<const MessageChoice> candidates) override;
  [[nodiscard]] const std::vector<Decision>& decisions() const { return decisions_; }
  /// As Schedule::decisions has them.
  [[nodiscard]] std::vector<std::uint16_t> taken() const;

 protected:
  /// Decides number `number` of a run, beyond the list: takes the first in virtual time.
  virtual std::size_t decide(std::size_t number, std::span<const MessageChoice> candidates);

 private:
  std::vector<std::uint16_t> list_;
  std::vector<Decision> decisions_;
};

struct ProgramSetting {
  int ranks = 1;
  RankContext::Setting of_ranks;
  bool watch = true;
  bool has_data = true;
  ReductionLog* reductions = nullptr;  ///< Null: reductions are not logged.
  /// Another content of buffers in flight.
  BufferWatch::Variation variation = {};
  /// Calls that the run mends, to see whether it ends well.
  std::vector<CallRepair> repairs = {};
};

struct ProgramRun {
  std::optional<Diagnosis> failure;
  std::vector<Suspicion> suspicions;  ///< Ranks that may be to blame.
  std::int64_t buffer_uses = 0;       ///< Buffers that were watched in flight.
  /// The report on an early read of the last of them that was varied.
  std::optional<Diagnosis> last_varied;
  std::vector<Diagnosis> warnings;
  ShownState shown;
  std::vector<std::int64_t> bytes_sent;  ///< Payload, by rank.
  std::vector<std::int64_t> peak_bytes;  ///< By rank.
  std::uint64_t trace_hash = 0;
};

/// A machine of so many ranks on which checks run: they do not depend on prices.
[[nodiscard]] Cluster check_cluster(int ranks);

/// `chooser` handles `schedule.decisions`. Throws exceptions that are no failure of the program: a
/// test framework's own, and limits of the engine.
[[nodiscard]] ProgramRun run_program(const Program& program, const ProgramSetting& setting,
                                     const Schedule& schedule, MessageChooser& chooser);

// --- Rounding noise ----------------------------------------------------------------------------

/// The rounding noise of shown tensors below fp64, from the terms of a program's sums
/// (docs/decisions/0051-bounds.md). Where terms cancel, the sum does not tell it. Nor does the
/// reference's own error, which may be small by luck. Further runs with drawn errors show it:
/// - the reference, whose elements are all rounded up or down at random;
/// - the program, with an error in the last bit of all terms of reductions;
/// - the program, with such an error in all other sends of one rank, rank by rank.
/// The program's own roundings are no excuse: a sum that is coarser than its terms is found.
class ProgramNoise {
 public:
  /// All that ranks show; nothing where the run fails.
  using Run = std::function<ShownState()>;
  struct Runs {
    Run program;          ///< As the run that is judged.
    Run program_in_fp64;  ///< The same but for precision.
    Run reference;        ///< On one rank, in the precision.
  };
  /// Runs them at once, many times. `exact`: the tensors that the reference shows in fp64.
  ProgramNoise(const Runs& runs, int ranks, const ShownState& exact);

  /// Largest error of an element of `tensor`.
  [[nodiscard]] double of(const ShownTensor& tensor) const;

 private:
  // The shown tensors without errors, and with them, draw by draw.
  struct Draws {
    ShownState plain;
    std::vector<ShownState> drawn;
  };
  [[nodiscard]] static double bound_of(const Draws& draws, const ShownTensor& tensor);
  [[nodiscard]] static double largest_of(const Draws& draws, const ShownTensor& tensor);

  Draws own_;
  Draws terms_;
  Draws copies_;
};

}  // namespace shardsim

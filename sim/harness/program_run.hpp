#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/kernel/diagnosis.hpp"

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
  /// Decides number `number` of a run, beyond the list.
  virtual std::size_t decide(std::size_t number, std::span<const MessageChoice> candidates);
  /// The first in virtual time.
  [[nodiscard]] static std::size_t earliest(std::span<const MessageChoice> candidates);

 private:
  std::vector<std::uint16_t> list_;
  std::vector<Decision> decisions_;
};

struct ProgramSetting {
  int ranks = 1;
  RankContext::Setting of_ranks;
  bool watch = true;
};

struct ProgramRun {
  std::optional<Diagnosis> failure;
  std::vector<Diagnosis> warnings;
  ShownState shown;
  std::vector<std::int64_t> bytes_sent;  ///< Payload, by rank.
  std::vector<std::int64_t> peak_bytes;  ///< By rank.
  std::uint64_t trace_hash = 0;
};

/// `chooser` handles `schedule.decisions`. Throws exceptions that are no failure of the program: a
/// test framework's own, and limits of the engine.
[[nodiscard]] ProgramRun run_program(const Program& program, const ProgramSetting& setting,
                                     const Schedule& schedule, MessageChooser& chooser);

}  // namespace shardsim

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/harness/check.hpp"
#include "sim/harness/explorers.hpp"
#include "sim/harness/program_run.hpp"

namespace shardsim {

/// One point of a check: a number of ranks, and the index of its layout, if there are layouts.
struct CheckPoint {
  int ranks = 1;
  int layout = -1;
};
[[nodiscard]] std::vector<CheckPoint> points_of(const CheckOptions& options);

/// The common part of the runs of one check: the program, its reference, and the judgement of a
/// run. A run is a function of the program, the options and a token; so is its verdict, which may
/// take more runs.
class Checker {
 public:
  /// Both must outlive it. Throws UsageError for options without a meaning.
  Checker(const Program& program, const CheckOptions& options);

  struct Outcome {
    std::optional<Diagnosis> failure;
    std::vector<Decision> decisions;
  };
  /// Runs once, deciding by `chooser`; notes warnings. `token.schedule.decisions` are ignored.
  Outcome run(const ReplayToken& token, ListChooser& chooser);
  /// The same, deciding by the token.
  Outcome replay(const ReplayToken& token);
  /// Names `failure`, the end of the token's run, in the light of other runs: BUFFER_HAZARD,
  /// MSG_RACE, or itself.
  [[nodiscard]] Diagnosis classify(const ReplayToken& token, Diagnosis failure);
  /// Runs and classifies; nothing if all is well.
  [[nodiscard]] std::optional<Diagnosis> verdict(const ReplayToken& token);

  [[nodiscard]] const CheckOptions& options() const { return options_; }
  [[nodiscard]] std::int64_t num_runs() const { return num_runs_; }
  [[nodiscard]] const std::vector<Diagnosis>& warnings() const { return warnings_; }

 private:
  [[nodiscard]] ProgramSetting setting_of(const ReplayToken& token, DType precision) const;
  [[nodiscard]] std::optional<Diagnosis> judge_run(const ReplayToken& token, const ProgramRun& run,
                                                   ListChooser& chooser);
  [[nodiscard]] std::optional<Diagnosis> judge_shown(const ReplayToken& token,
                                                     const ShownState& shown, DType precision,
                                                     const ListChooser& chooser);
  // Judges the run that `chooser` has decided, by quantities that do not change with schedules.
  const ProgramNoise& noise(const ReplayToken& token, const ListChooser& chooser);
  [[nodiscard]] bool right_in_fp64(const ReplayToken& token, const ListChooser& chooser);
  [[nodiscard]] bool shows_on_one_rank(const ReplayToken& token);
  const ShownState& reference(const ReplayToken& token, DType precision);
  [[nodiscard]] ProgramRun run_reference(const ReplayToken& token, DType precision) const;
  [[nodiscard]] std::optional<Diagnosis> find_race(const ReplayToken& token,
                                                   const Diagnosis& failure);
  void note_warnings(const std::vector<Diagnosis>& warnings);

  const Program& program_;
  const CheckOptions& options_;
  std::map<std::tuple<std::uint64_t, int, DType>, ShownState> references_;
  std::map<std::tuple<std::uint64_t, int, int, int>, ProgramNoise> noises_;
  std::vector<Diagnosis> warnings_;
  std::int64_t num_runs_ = 0;
};

/// Tries schedules of one number of ranks and one seed; see Exploration.
class Explorer {
 public:
  Explorer(Checker& checker, ReplayToken token) : checker_(checker), token_(std::move(token)) {}

  struct Found {
    ReplayToken token;
    Diagnosis failure;
  };
  /// The first failure, classified.
  std::optional<Found> explore(const Exploration& exploration);
  [[nodiscard]] bool exhausted() const { return exhausted_; }
  [[nodiscard]] std::int64_t most_choices() const { return most_choices_; }
  /// Schedules that were drawn.
  [[nodiscard]] std::int64_t num_drawn() const { return num_drawn_; }

 private:
  std::optional<Found> run_plain(SendMode sends);
  std::optional<Found> draw(const Exploration& exploration);
  std::optional<Found> search(SendMode sends, const Exploration& exploration);
  std::optional<Found> run(const Schedule& schedule, ListChooser& chooser, std::int64_t number);

  Checker& checker_;
  ReplayToken token_;
  bool exhausted_ = false;
  std::int64_t most_choices_ = 0;
  std::int64_t num_drawn_ = 0;
};

}  // namespace shardsim

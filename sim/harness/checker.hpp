#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/harness/check.hpp"
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
    std::vector<Suspicion> suspicions;
  };
  /// Runs once, deciding by `chooser`; notes warnings. `token.schedule.decisions` are ignored.
  Outcome run(const ReplayToken& token, ListChooser& chooser);
  /// The same, deciding by the token.
  Outcome replay(const ReplayToken& token);
  /// Names the failure of the token's run in the light of other runs: BUFFER_HAZARD, MSG_RACE, the
  /// one rank that is to blame, or itself. REQUIRES: `outcome` has a failure.
  [[nodiscard]] Diagnosis classify(const ReplayToken& token, Outcome outcome);
  /// Runs and classifies; nothing if all is well.
  [[nodiscard]] std::optional<Diagnosis> verdict(const ReplayToken& token);

  /// Judges what a run has sent, used and shown that was made elsewhere, and not by schedules.
  [[nodiscard]] std::optional<Diagnosis> judge_figures(const ReplayToken& token,
                                                       const ProgramRun& run) {
    ListChooser chooser;
    return judge_run(token, run, chooser);
  }

  /// The reference of the tensors that were shown, in words: CheckReport::compared_with.
  [[nodiscard]] std::string compared_with() const;

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
  [[nodiscard]] ProgramRun run_alone(const Program& program, const ReplayToken& token,
                                     DType precision) const;
  // Which message a receive takes decides on the failure: MSG_RACE, SCHEDULE_DEPENDS.
  [[nodiscard]] std::optional<Diagnosis> find_race(const ReplayToken& token,
                                                   const Diagnosis& failure);
  [[nodiscard]] std::optional<Diagnosis> find_critical(const ReplayToken& token,
                                                       const Diagnosis& failure,
                                                       const std::vector<Decision>& decisions);
  // The read of a buffer in flight that the failure comes from, if there is one.
  [[nodiscard]] std::optional<Diagnosis> find_early_read(const ReplayToken& token,
                                                         const Diagnosis& failure);
  // The report on the only rank with whose calls mended the run ends well, if there is one.
  [[nodiscard]] std::optional<Diagnosis> find_culprit(const ReplayToken& token,
                                                      const std::vector<Suspicion>& suspicions);
  [[nodiscard]] bool ends_well(const ReplayToken& token, const std::vector<CallRepair>& repairs);
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
  std::optional<Found> draw(const Exploration& exploration);
  std::optional<Found> search(SendMode sends, const Exploration& exploration);
  std::optional<Found> run(const Schedule& schedule, ListChooser& chooser, std::int64_t number);

  Checker& checker_;
  ReplayToken token_;
  bool exhausted_ = false;
  std::int64_t most_choices_ = 0;
  std::int64_t num_drawn_ = 0;
};

// --- Ways through the decisions of a program ---------------------------------------------------

/// Gives ranks random priorities and takes the message of the highest. At depth - 1 decisions,
/// drawn among the first `num_choices`, the rank that would be taken falls below all others.
class PriorityChooser final : public ListChooser {
 public:
  PriorityChooser(int ranks, int depth, std::int64_t num_choices, std::uint64_t seed);

 protected:
  std::size_t decide(std::size_t number, std::span<const MessageChoice> candidates) override;

 private:
  [[nodiscard]] std::size_t highest(std::span<const MessageChoice> candidates) const;

  std::vector<int> priority_;  // By rank.
  std::vector<std::size_t> changes_;
  int lowest_ = 0;
};

/// Goes through all runs that differ in what some rank sees: depth first, without those that only
/// swap decisions of different receivers.
class ReducedSearch {
 public:
  /// Runs once, deciding by `chooser`, and returns whether to go on.
  using Run = std::function<bool(ListChooser& chooser)>;
  /// At most `budget` runs. True if there are no more.
  bool search(const Run& run, std::int64_t budget);

 private:
  // A decision, with all that tells it from others of the same point.
  struct Step {
    int receiver = 0;
    std::int64_t receive = 0;
    MessageName message;

    friend auto operator<=>(const Step&, const Step&) = default;
  };
  struct Node {
    std::vector<MessageChoice> choices;  // One or more.
    std::size_t taken = 0;
    std::set<std::size_t> backtrack;  // Choices to take; some are taken.
    std::set<std::size_t> done;
    std::set<Step> sleep;  // Taken before, in an order that makes no difference.
  };
  class Walker;

  static Step step_of(const MessageChoice& choice);
  void add_races(const Walker& walker);
  bool next();

  std::vector<Node> path_;
};

}  // namespace shardsim

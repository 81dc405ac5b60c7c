#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reports/result.hpp"
#include "sim/search/plan_search.hpp"
#include "sim/search/training_figures.hpp"

// The result of a search as plain values, from which tables, pages and files are made.
namespace shardsim {

class Experiment;
struct LayoutPage;

/// One category of the step, for the best layout and for the next one.
struct CategoryDifference {
  std::string category;  ///< "compute", "exposed communication", "bubble", "host"
  double best_s = 0;
  double runner_up_s = 0;
};

struct SearchReport : SearchCounts {
  std::string model;
  std::string system;
  std::int64_t num_gpus = 0;
  std::int64_t seq_len = 0;
  std::int64_t global_batch_size = 0;
  std::string precision;
  std::string recipe;  ///< training.fp8_recipe
  Objective objective = Objective::time;
  std::int64_t memory_capacity_bytes = 0;  ///< Memory of one GPU.
  double memory_margin = 0;                ///< Share of it that a layout should leave.
  double usd_per_gpu_hour = 0;             ///< 0: not given, and there are no costs.
  double tokens = 0;                       ///< That the whole training takes; 0: not given.

  std::vector<std::string>
      assumptions;                    ///< In sentences; then the sources of the machine's numbers.
  std::vector<std::string> ignored;   ///< Fields of the file that are not used.
  std::vector<std::string> warnings;  ///< Parts of a config.json that this model lacks.
  std::vector<std::string> sources;
  std::string mfu_counts;              ///< As TextHeadline has it.
  std::string not_modelled;            ///< The preset says it; may be empty.
  std::vector<SimulatedPoint> ranked;  ///< The best of each family, best first.
  /// Where measured runs like ranked[i] lie: its metrics, error bands or why there are none.
  std::vector<Result> measured;
  std::vector<TrainingFigures> training;  ///< That of ranked[i], if `tokens` are given.
  std::vector<SimulatedPoint> front;      ///< Throughput against memory; the fastest first.
  double front_within = 0;  ///< Times the fastest step: slower layouts are not on the front.
  std::vector<SimulatedPoint> others;  ///< All other simulated layouts that fit, for a scatter.
  std::vector<CategoryDifference> differences;  ///< Between ranked[0] and ranked[1].
  std::string why_runner_up;                    ///< One sentence; empty without one.

  std::optional<GivenOutcome> given;  ///< The layout that was asked for; see given_words().
  Result given_measured;              ///< As `measured`, if it has a point.
  std::optional<TrainingFigures> given_training;

  double time_limit_s = 0;  ///< The one that stopped the search, if one did.
  std::size_t num_simulated = 0;
  std::string first_failed;            ///< The layout that failed first.
  std::size_t num_did_not_fit = 0;     ///< The simulated ones that did not fit.
  std::string least_that_did_not_fit;  ///< Its layout; empty if all fit.
  std::int64_t least_bytes_not_fitting = 0;
  bool least_is_simulated = false;  ///< Else the bytes are a lower bound.

  /// Dollars for 10^12 tokens; 0 if no price is given.
  [[nodiscard]] double usd_per_1t_tokens(const SimulatedPoint& point) const;
};

/// The given layout's rank among all layouts, and what it loses against the first, in sentences.
/// REQUIRES: there is one.
[[nodiscard]] std::string given_words(const SearchReport& report);

/// The point's step time and memory on the device with their error bands, or why there are none;
/// its goodput and cost where the experiment has failure rates and tokens.
[[nodiscard]] Result measured_like(const Experiment& experiment, const SimulatedPoint& point);

/// Steps and memory of the first layout as runs like it were measured, and its training, in
/// sentences. Empty if nothing fits.
[[nodiscard]] std::string measured_words(const SearchReport& report);

/// How good the best is if the search was stopped, in one sentence: "stopped after 60 s: best ...".
[[nodiscard]] std::string stop_words(const SearchReport& report);

[[nodiscard]] SearchReport report_of(const SearchBase& base, const SearchRequest& request,
                                     const SearchOutcome& outcome);

struct SearchTextOptions {
  bool wide = false;    ///< All columns; else 100.
  bool ascii = false;   ///< No braille.
  std::string command;  ///< The command of this run, for the next one.
};
/// The page of `shardsim plan`.
[[nodiscard]] std::string to_text(const SearchReport& report, const SearchTextOptions& options);
[[nodiscard]] std::string to_json(const SearchReport& report);
[[nodiscard]] std::string to_csv(const SearchReport& report);
/// The page of `shardsim plan --report`: the same layouts, in the same order, as on the terminal.
[[nodiscard]] LayoutPage page_of(const SearchReport& report);

/// Throughput to the right, memory upwards: `front` bright, others faint.
[[nodiscard]] std::string scatter_text(const SearchReport& report, bool ascii);

}  // namespace shardsim

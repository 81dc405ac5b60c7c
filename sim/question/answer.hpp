#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reports/result.hpp"
#include "sim/search/search_report.hpp"
#include "sim/search/training_figures.hpp"

#include "sim/question/question.hpp"

// The answer to a planner's question as plain values, from which its text and files are made.
namespace shardsim {

/// The order of rows: those that hold come first.
enum class MachineFate : std::uint8_t {
  holds,         ///< It meets the deadline and the budget, where there are such.
  misses,        ///< It trains, but too late, or for too much.
  not_found,     ///< No layout that fits was found before the search was stopped.
  does_not_fit,  ///< No layout fits: the search is complete.
  no_layout,     ///< No layout is legal for this number of GPUs.
};

/// One machine with its best layout. All ranges are those of measured runs like the layout; see
/// BandRange.
struct AnswerRow {
  MachineChoice machine;
  std::string system;                      ///< "NVIDIA DGX H100"
  std::int64_t memory_capacity_bytes = 0;  ///< That one GPU has.
  MachineFate fate = MachineFate::not_found;
  std::vector<std::string>
      lost_to;         ///< "deadline", "budget", "failures", "memory", "layout", "time limit".
  std::string reason;  ///< Why it is the first, or why it is not, in one sentence.

  std::optional<SimulatedPoint> best;
  Result measured;           ///< The metrics and error bands of `best`.
  TrainingFigures training;  ///< On all tokens, or on 10^12 where none are given.

  bool is_complete = false;   ///< Nothing that is left can be faster.
  std::optional<double> gap;  ///< See gap_of().
  std::size_t num_candidates = 0;
  std::size_t num_simulated = 0;
  std::string least_that_did_not_fit;  ///< The layout that needs least memory; may be empty.
  std::int64_t least_bytes_not_fitting = 0;
  bool least_is_simulated = false;  ///< Else the bytes are a lower bound.

  /// Whether measured runs like its layout give a range; else all figures are the model's own.
  [[nodiscard]] bool has_range() const { return measured.band_of(metric::kStepTimeS) != nullptr; }
};

struct Answer {
  Question question;
  std::string model;
  std::int64_t seq_len = 0;
  std::int64_t global_batch_size = 0;
  std::string precision;
  double memory_margin = 0;
  double tokens = 0;  ///< Those that days and dollars are for.
  std::string not_modelled;
  std::vector<std::string> assumptions;
  std::vector<std::string> ignored;
  std::vector<std::string> warnings;
  std::optional<double> least_goodput;  ///< That of all rows, where failure rates are given.
  std::optional<double> most_goodput;
  SearchStop stop = SearchStop::none;
  double spent_s = 0;
  std::vector<AnswerRow> rows;  ///< In the order of rank_rows().
};

/// Fills in fate, lost_to and reason, and the training if there is a best layout. `row.best` and
/// the figures of its search are there already.
/// `experiment`: that of the best layout; null without one.
void judge_row(const Answer& answer, const Experiment* experiment, AnswerRow& row);

/// Rows that hold first, the cheapest (without prices: least GPU hours) before others; then, in the
/// same order, those that miss; then the others by fate. It completes the reasons of those that
/// hold.
void rank_rows(Answer& answer);

/// The price of the row, if all rows have one; else its GPU hours: what ranks.
[[nodiscard]] double cost_of_row(const Answer& answer, const AnswerRow& row);
[[nodiscard]] bool has_all_prices(const Answer& answer);

/// "proven", "gap 2.1 %", "open": how far the row's search came.
[[nodiscard]] std::string search_words(const AnswerRow& row);
/// The evidence behind the ranges, once for each kind of GPU: "h100: the range holds 70 % ...".
/// Rows without a range are named, with the reason, and how far the model was from measured runs of
/// the others.
[[nodiscard]] std::vector<std::string> evidence_words(const Answer& answer);

struct AnswerTextOptions {
  std::string command;  ///< The command that is worth trying next; may be empty.
};
/// The rows alone.
[[nodiscard]] std::string to_table(const Answer& answer);
[[nodiscard]] std::string to_text(const Answer& answer, const AnswerTextOptions& options);
[[nodiscard]] std::string to_json(const Answer& answer);
[[nodiscard]] std::string to_csv(const Answer& answer);

}  // namespace shardsim

#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "reports/comparison_page.hpp"
#include "reports/run_detail.hpp"
#include "sim/diff/run_side.hpp"

// Comparison of two runs. Rows of a table add up to its total exactly: an unexplained rest is a row
// of its own.

namespace shardsim {

struct DiffRow {
  std::string name;
  std::int64_t a = 0;
  std::int64_t b = 0;

  [[nodiscard]] std::int64_t difference() const { return b - a; }
};

struct DiffTable {
  DiffRow total;
  std::vector<DiffRow> rows;
};

struct FieldChange {
  std::string path;
  std::string a;  ///< Empty: the field is not there.
  std::string b;
};

struct MetricPair {
  std::string name;
  double a = 0.0;
  double b = 0.0;
};

/// A result of a run besides its step: tokens/s per GPU, goodput if failures are modeled, and days
/// and dollars if the length of the training is given.
struct Outcome {
  std::string metric;
  std::optional<double> a;  ///< Nothing: that side does not have it.
  std::optional<double> b;
};

/// The work of a step; zeros if it is unknown.
struct StepWork {
  std::int64_t tokens = 0;
  std::int64_t gpus = 0;
  double tokens_per_s = 0.0;

  [[nodiscard]] bool is_told() const { return tokens > 0 && gpus > 0; }
  [[nodiscard]] double per_gpu() const { return tokens_per_s / static_cast<double>(gpus); }
  [[nodiscard]] double tokens_of_a_gpu() const {
    return static_cast<double>(tokens) / static_cast<double>(gpus);
  }
};

/// Two predicted steps with different work: another batch, other GPUs, another model. Their times
/// alone say little, but their tokens/s per GPU can be compared.
struct WorkChange {
  std::string model;  ///< "56 layers instead of 32"; empty: it is the same model.
  StepWork a;         ///< Both are known, or neither is.
  StepWork b;
};

/// The verdict of the predictions' error bands on the difference in step time. For steps with
/// different tokens or GPUs it is on the difference in tokens/s per GPU.
enum class BandVerdict { no_band, distinguishable, within_band, unlike };

struct RunComparison {
  RunSide a;
  RunSide b;
  DiffTable time;                   ///< In picoseconds.
  std::optional<DiffTable> memory;  ///< Nothing if one side does not have it.
  std::vector<DiffRow> traffic;     ///< By axis; those with traffic on a side.
  std::vector<FieldChange> fields;
  std::vector<std::string> only_in_a;  ///< Assumptions.
  std::vector<std::string> only_in_b;
  std::vector<MetricPair> metrics;  ///< Metrics of both sides, by name.
  std::vector<Outcome> outcomes;
  std::optional<WorkChange> work;  ///< Set if two predicted steps do different work.
  BandVerdict verdict = BandVerdict::no_band;
  std::string unlike;  ///< Why no verdict is given; see unlike_words.
};

[[nodiscard]] RunComparison compare(RunSide a, RunSide b);

/// For a side that is a log: the differences of B from A in model, GPUs, batch and layout, or which
/// of model and GPUs is unknown. Empty if they are the same.
[[nodiscard]] std::string unlike_words(const RunSide& a, const RunSide& b);

/// Nothing if the work is the same or unknown, or if a side is measured: unlike_words covers that.
[[nodiscard]] std::optional<WorkChange> work_change(const RunSide& a, const RunSide& b);

/// The differences that make two predicted steps different trainings: model, batch, sequences. "80
/// layers instead of 32, 256 sequences instead of 128"; empty for one training on two machines or
/// in two layouts, and for a measured side.
[[nodiscard]] std::string different_trainings(const RunComparison& comparison);

/// The outcomes that at least one side has; the throughput only if both have it.
[[nodiscard]] std::vector<Outcome> outcomes_of(const RunSide& a, const RunSide& b);

/// A line each, in the columns of the tables.
[[nodiscard]] std::string outcomes_text(const std::vector<Outcome>& outcomes);

/// The fields that a side has and that have an effect on one.
[[nodiscard]] std::set<std::string> compared_fields(const std::vector<const RunSide*>& sides);

/// Divides a side's exposed communication by axes, if a run has reported them.
void add_axes(RunSide& side, const std::vector<AxisComm>& axes);

/// The part that explains most of a difference, in its direction; null if none does.
[[nodiscard]] const DiffRow* main_reason(const DiffTable& table);

/// ", mostly because it computes more (+183 ms)"; empty if no part explains the difference.
[[nodiscard]] std::string reason_words(const DiffTable& time);

/// Whether the band holds this time.
[[nodiscard]] bool holds(const std::optional<StepBand>& band, std::int64_t step_ps);

/// "does not fit: it needs 91.2 GiB on the fullest GPU, which has 80.0 GiB", of a side that does
/// not; the sizes are left out if they are unknown.
[[nodiscard]] std::string does_not_fit_words(const RunSide& side);

/// The memory of a GPU of this side, in bytes; 0 if it is unknown.
[[nodiscard]] double device_bytes_of(const RunSide& side);

/// The result of the comparison, in one sentence.
[[nodiscard]] std::string sentence_of(const RunComparison& comparison);

/// Where measured runs like each side lie, beside the model's numbers; empty if no side has a band.
[[nodiscard]] std::string sides_bands_text(const RunComparison& comparison);

/// Tables of at most 100 columns, and the sentence at the end.
[[nodiscard]] std::string diff_text(const RunComparison& comparison);
/// One object; times in picoseconds and sizes in bytes, so that readers can add them up.
[[nodiscard]] std::string diff_json(const RunComparison& comparison);
/// Several comparisons with one A: {"comparisons": [...]}, each with the `letter` of its B.
[[nodiscard]] std::string comparisons_json(const std::vector<RunComparison>& comparisons);

/// The page that shows two to four sides beside each other; sentences compare with the first.
/// REQUIRES: each side has a letter of its own.
[[nodiscard]] ComparisonPage page_of(const std::vector<RunSide>& sides);

/// A limit on a change, for scripts: "step_time_s > 2%".
struct ChangeLimit {
  std::string metric;
  bool above = true;
  double limit = 0.0;
  bool relative = false;  ///< In percent of A, else in the metric's unit.
};

/// Throws UsageError (E1344) for another text.
[[nodiscard]] ChangeLimit parse_limit(const std::string& text);

/// The change beyond the limit, in words; empty if there is none. Throws UsageError (E1344) if one
/// side does not have the metric, or if the base of percents is zero.
[[nodiscard]] std::string breach_of(const ChangeLimit& limit, const RunComparison& comparison);

}  // namespace shardsim

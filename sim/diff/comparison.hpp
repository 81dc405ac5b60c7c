#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reports/run_detail.hpp"
#include "sim/diff/outcome.hpp"
#include "sim/diff/run_side.hpp"
#include "sim/diff/work_change.hpp"

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

/// For a side that is a log: the differences of B from A in model, GPUs and batch, or which of
/// model and GPUs is unknown. Empty if they are the same.
[[nodiscard]] std::string unlike_words(const RunSide& a, const RunSide& b);

/// Divides a side's exposed communication by axes, if a run has reported them.
void add_axes(RunSide& side, const std::vector<AxisComm>& axes);

/// The part that explains most of a difference, in its direction; null if none does.
[[nodiscard]] const DiffRow* main_reason(const DiffTable& table);

/// Whether the band holds this time.
[[nodiscard]] bool holds(const std::optional<StepBand>& band, std::int64_t step_ps);

/// The result of the comparison, in one sentence.
[[nodiscard]] std::string sentence_of(const RunComparison& comparison);

/// Tables of at most 100 columns, and the sentence at the end.
[[nodiscard]] std::string diff_text(const RunComparison& comparison);
/// One object; times in picoseconds and sizes in bytes, so that readers can add them up.
[[nodiscard]] std::string diff_json(const RunComparison& comparison);

}  // namespace shardsim

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reports/result.hpp"
#include "reports/text_summary.hpp"

// The parts of the text summary, each a few lines that already fit the width. A part without facts
// is empty.
namespace shardsim {

using Lines = std::vector<std::string>;

/// Adds `more` at the end.
void append(Lines& lines, const Lines& more);

enum class Style { bold, dim, good, bad, caution };

/// Colour and measures of one screen.
class Page {
 public:
  explicit Page(const TextOptions& options);

  [[nodiscard]] std::size_t width() const { return width_; }
  [[nodiscard]] std::size_t bar_columns() const;
  /// `text` between the escape sequences of `style`; as it is without colour.
  [[nodiscard]] std::string paint(Style style, std::string_view text) const;
  /// "  label        text", wrapped under the text. `text` is trusted and unpainted.
  [[nodiscard]] Lines row(std::string_view label, std::string_view text) const;
  /// "  ✗ text": a painted mark before wrapped text; line breaks in `text` are kept.
  [[nodiscard]] Lines marked(Style style, std::string_view mark, std::string_view text) const;

 private:
  bool color_;
  std::size_t width_;
};

[[nodiscard]] Lines headline_section(const TextHeadline& headline, const Page& page);
[[nodiscard]] Lines figures_section(const Result& result, const Page& page);
[[nodiscard]] Lines mfu_section(const Result& result, const TextHeadline& headline,
                                const Page& page);
[[nodiscard]] Lines time_section(const Result& result, const Page& page);
[[nodiscard]] Lines memory_section(const Result& result, double device_memory_bytes,
                                   const Page& page);
[[nodiscard]] Lines traffic_section(const Result& result, const Page& page);
/// The cost of the whole training; nothing if its tokens are not given.
[[nodiscard]] Lines cost_section(const Result& result, const TextHeadline& headline,
                                 const Page& page);
/// "1 T tokens: 94.2 days, 2.31 M GPU hours, $720 k"; empty if the tokens are not given.
[[nodiscard]] std::string describe_cost(const Result& result, const TextHeadline& headline);
/// The range of what drawn faults lead to; nothing without draws.
[[nodiscard]] Lines draws_section(const Result& result, const Page& page);
/// The balance of routed tokens; nothing without experts.
[[nodiscard]] Lines expert_section(const Result& result, const Page& page);
/// `steps` of the run, of which some were skipped.
[[nodiscard]] Lines loss_scale_section(const Result& result, std::int64_t steps, const Page& page);
[[nodiscard]] Lines oracle_section(const Result& result, const Page& page);
/// The error band of a plan's memory (figures_section has the step's), or the reason why there is
/// none. Nothing for a verify run, whose times do not matter.
[[nodiscard]] Lines error_band_section(const Result& result, const Page& page);
/// The share of time that failures leave; nothing where none are given.
[[nodiscard]] Lines goodput_section(const Result& result, const Page& page);
/// The measurements of a run on real processes.
[[nodiscard]] Lines measured_section(const Result& result, const Page& page);
/// The passed checks, in one row.
[[nodiscard]] Lines checks_section(const Result& result, const Page& page);
/// The proof about schedules, where they were explored.
[[nodiscard]] Lines schedules_section(const Result& result, const Page& page);
[[nodiscard]] Lines failed_checks_section(const Result& result, const Page& page);
[[nodiscard]] Lines expectations_section(const Result& result, bool passed, const Page& page);
[[nodiscard]] Lines diagnosis_section(const Result& result, const Page& page);
[[nodiscard]] Lines warnings_section(const Result& result, const Page& page);
[[nodiscard]] Lines assumptions_section(const Result& result, const Page& page);
[[nodiscard]] Lines verdict_section(const Result& result, const Page& page);

}  // namespace shardsim

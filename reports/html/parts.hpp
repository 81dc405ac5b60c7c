#pragma once

#include <string>
#include <string_view>

#include "reports/result.hpp"
#include "reports/run_detail.hpp"
#include "reports/text_summary.hpp"

// The parts of the page from top to bottom, as markup. A part without facts is empty.
namespace shardsim::html {

struct Input {
  const Result& result;
  const TextHeadline& headline;
  const RunDetail& detail;
};

/// Name, what was run.
[[nodiscard]] std::string masthead(const Input& input);
/// One screen: the verdict, what is wrong, headline numbers, two charts, a paragraph in words.
[[nodiscard]] std::string summary_part(const Input& input);
/// The headline numbers, each with its range and what was simulated where there is a band.
[[nodiscard]] std::string tiles(const Input& input);
/// The step by what the rank that ends last does, in seconds and percent.
[[nodiscard]] std::string time_overview(const Input& input);
/// Memory of the fullest GPU by category, against what it has.
[[nodiscard]] std::string memory_overview(const Input& input);
/// The run in one paragraph.
[[nodiscard]] std::string summary_words(const Input& input);

/// One short sentence beside the heading of each folded section.
struct SectionFacts {
  std::string time;
  std::string cost;
  std::string memory;
  std::string schedule;
  std::string communication;
  std::string traffic;
  std::string roofline;
  std::string sensitivity;
  std::string checks;
  std::string assumptions;
  std::string metrics;
};
[[nodiscard]] SectionFacts section_facts(const Input& input);

[[nodiscard]] std::string time_part(const Input& input);
[[nodiscard]] std::string communication_part(const Input& input);
[[nodiscard]] std::string memory_part(const Input& input);
[[nodiscard]] std::string schedule_part(const Input& input);
/// Traffic by axis and tier, the use of links, and ranks in pairs.
[[nodiscard]] std::string traffic_part(const Input& input);
[[nodiscard]] std::string roofline_part(const Input& input);
/// The step with one quantity changed; empty unless it was asked for.
[[nodiscard]] std::string sensitivity_part(const Input& input);
[[nodiscard]] std::string cost_part(const Input& input);
/// Checks and expectations, one by one, and where measured runs lie.
[[nodiscard]] std::string checks_part(const Input& input);
[[nodiscard]] std::string assumptions_part(const Input& input);
[[nodiscard]] std::string metrics_part(const Input& input);
[[nodiscard]] std::string scenario_part(const Input& input);

// The data of the page's charts, as JSON, and its packing.

/// `detail` in columns, which pack well: times of curves and bars in whole nanoseconds, all else as
/// it is. ASCII, on one line.
[[nodiscard]] std::string detail_json(const RunDetail& detail, double device_memory_bytes);

/// A value as to_json writes it: the same digits.
[[nodiscard]] std::string metric_json(const MetricValue& value);

/// The same JSON, indented. Throws Error (internal) if it is not one JSON object.
[[nodiscard]] std::string pretty_json(const std::string& json);

/// gzip (RFC 1952) without a time or a name, in base64. Equal texts give equal ones with the same
/// zlib. Throws Error (internal) if zlib fails.
[[nodiscard]] std::string gzip_base64(std::string_view text);

}  // namespace shardsim::html

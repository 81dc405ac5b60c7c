#pragma once

#include <string>

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
/// Verdict, one paragraph in plain words, headline numbers, and what is wrong.
[[nodiscard]] std::string summary_part(const Input& input);
/// The paragraph of the summary.
[[nodiscard]] std::string plain_summary(const Input& input);

[[nodiscard]] std::string time_part(const Input& input);
[[nodiscard]] std::string communication_part(const Input& input);
[[nodiscard]] std::string memory_part(const Input& input);
[[nodiscard]] std::string schedule_part(const Input& input);
[[nodiscard]] std::string traffic_part(const Input& input);
[[nodiscard]] std::string links_part(const Input& input);
[[nodiscard]] std::string roofline_part(const Input& input);
[[nodiscard]] std::string cost_part(const Input& input);
/// Checks and expectations, one by one, and where measured runs lie.
[[nodiscard]] std::string checks_part(const Input& input);
[[nodiscard]] std::string assumptions_part(const Input& input);
[[nodiscard]] std::string metrics_part(const Input& input);
[[nodiscard]] std::string scenario_part(const Input& input);

}  // namespace shardsim::html

#pragma once

#include <string>
#include <vector>

#include "tests/agreement/shown_number.hpp"

// Reads back the numbers that each kind of page shows for a run. A new kind needs a function that
// reads its numbers under the names of the metrics they show. It also needs a row in
// agreement_test.cpp.
namespace shardsim::test {

/// The object of --json, output.result.
[[nodiscard]] ShownNumbers read_json(const std::string& text);
/// The text that the command prints.
[[nodiscard]] ShownNumbers read_screen(const std::string& text);
/// output.markdown: rounded in its tables, and all digits in its list of metrics.
[[nodiscard]] ShownNumbers read_markdown(const std::string& text);
/// output.report: rounded in its tiles, and all digits in its list of metrics and in its data.
[[nodiscard]] ShownNumbers read_html(const std::string& text);
/// output.csv, the metrics.
[[nodiscard]] ShownNumbers read_csv(const std::string& text);

/// Patterns of these readers that no page had so far: words that pages no longer use would
/// otherwise end a comparison without a sign.
[[nodiscard]] std::string patterns_without_match();

/// Rows and cells of a CSV file as RFC 4180 has it, the names first.
[[nodiscard]] std::vector<std::vector<std::string>> csv_rows(const std::string& text);

}  // namespace shardsim::test

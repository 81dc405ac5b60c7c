#pragma once

#include <cstddef>
#include <string>

#include "reports/result.hpp"

// The outcome of a run in words, the same on every page that shows it. Names in expectations come
// from users: callers escape them.
namespace shardsim {

/// "1 check", "2 checks".
[[nodiscard]] std::string count_of(std::size_t count, const char* noun);

/// In the unit that the metric's name promises.
[[nodiscard]] std::string format_metric(const std::string& name, double value);

/// "mfu >= 0.38: 0.387".
[[nodiscard]] std::string expectation_text(const ExpectationResult& row);

/// "OK", "FAILED: 2 checks", "DOES NOT FIT".
[[nodiscard]] std::string verdict_text(const Result& result);

}  // namespace shardsim

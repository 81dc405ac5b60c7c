#pragma once

#include <string>

#include "reports/result.hpp"
#include "reports/run_detail.hpp"
#include "reports/text_summary.hpp"

namespace shardsim {

/// A run as a page for wikis, issues and pull requests: the screen's content by stage and axis, all
/// assumptions, and all metrics with all digits. `detail`: null for a run that did not end; its
/// parts are left out. Names from users can neither break a table nor become markup.
[[nodiscard]] std::string to_markdown(const Result& result, const TextHeadline& headline,
                                      const RunDetail* detail);

}  // namespace shardsim

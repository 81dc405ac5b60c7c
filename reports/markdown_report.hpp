#pragma once

#include <string>

#include "reports/result.hpp"
#include "reports/run_detail.hpp"
#include "reports/text_summary.hpp"

namespace shardsim {

/// A run as a page for wikis, issues and pull requests: what the screen shows, by stage and by
/// axis, with every assumption, and all metrics with all digits. `detail`: null where there is
/// none, as of a run that did not end; its parts are left out. Names that are not ours can neither
/// break a table nor become markup.
[[nodiscard]] std::string to_markdown(const Result& result, const TextHeadline& headline,
                                      const RunDetail* detail);

}  // namespace shardsim

#pragma once

#include "reports/layout_page.hpp"
#include "sim/search/search_report.hpp"

namespace shardsim {

/// The page of `shardsim plan --report`: the same layouts, in the same order, as on the terminal.
[[nodiscard]] LayoutPage page_of(const SearchReport& report);

}  // namespace shardsim

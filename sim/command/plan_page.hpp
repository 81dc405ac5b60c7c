#pragma once

#include "reports/pages.hpp"
#include "sim/search/search_report.hpp"

namespace shardsim {

/// The page of `shardsim plan --report`: the search, with the bands, days and dollars of the
/// ranked layouts, and the flags with which frameworks train the best of them. A framework that
/// cannot say a layout is left out.
[[nodiscard]] LayoutPage plan_page(const SearchBase& base, const SearchReport& report);

}  // namespace shardsim

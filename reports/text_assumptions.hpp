#pragma once

#include <string>

#include "reports/result.hpp"

namespace shardsim {

/// Everything a result rests on, below the source it comes from; what has no published source comes
/// first. Lines of at most `width` columns; as many as it takes.
[[nodiscard]] std::string assumptions_text(const Result& result, std::size_t width = 100);

}  // namespace shardsim

#pragma once

#include <string>

#include "reports/result.hpp"

namespace shardsim {

/// All assumptions of a result, below their sources; those without a published source come first.
/// Lines of at most `width` columns; as many as it takes.
[[nodiscard]] std::string assumptions_text(const Result& result, std::size_t width = 100);

}  // namespace shardsim

#pragma once

#include "reports/run_detail.hpp"

namespace shardsim::samples {

/// Two stages of two ranks, small enough to be read. One name is not ours and wants to break out.
[[nodiscard]] RunDetail detail();

}  // namespace shardsim::samples

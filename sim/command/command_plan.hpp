#pragma once

#include "sim/console/verb.hpp"

namespace shardsim {

/// `shardsim plan MODEL --gpus N --gpu KIND`: which layout to train with.
[[nodiscard]] Verb plan_verb();

}  // namespace shardsim

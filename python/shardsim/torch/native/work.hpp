#pragma once

#include <cstdint>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "exchange.hpp"
#include "log.hpp"

// The handle of a call, as scripts wait for it.
namespace shardsim_torch {

/// `number`: the log's; 0: it moves nothing on the device. `fetch`: brings the results when it is
/// waited for; null: there are none to bring.
[[nodiscard]] c10::intrusive_ptr<c10d::Work> make_work(c10::intrusive_ptr<c10d::Backend> group,
                                                       std::int64_t number,
                                                       StreamNumber group_stream,
                                                       const std::vector<at::Tensor>& results,
                                                       Fetch fetch);

}  // namespace shardsim_torch

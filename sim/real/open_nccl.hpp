#pragma once

#include "sim/real/open_backend.hpp"

namespace shardsim {

/// `open_backend`, `require_backend` and `prepare_backend` for NCCL.
[[nodiscard]] std::unique_ptr<OpenBackend> open_nccl(const ProcessOptions& options,
                                                     const MeetingPoint& place,
                                                     const SharedKeys& keys, CallWatch& watch);
void require_nccl(const ProcessOptions& options);
void prepare_nccl(const ProcessOptions& options, const MeetingPoint& place);

}  // namespace shardsim

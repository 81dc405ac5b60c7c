#include "sim/real/open_backend.hpp"

#include "sim/real/open_mpi.hpp"
#include "sim/real/open_nccl.hpp"

namespace shardsim {

void require_backend(const ProcessOptions& options) {
  if (options.backend == "nccl") return require_nccl(options);
  require_mpi();
}

void prepare_backend(const ProcessOptions& options, const MeetingPoint& place) {
  if (options.backend == "nccl") prepare_nccl(options, place);
}

std::unique_ptr<OpenBackend> open_backend(const ProcessOptions& options,
                                          const BackendSetting& setting, const MeetingPoint& place,
                                          const SharedKeys& keys, CallWatch& watch) {
  if (options.backend == "nccl") return open_nccl(options, place, keys, watch);
  return open_mpi(options, setting, place, watch);
}

}  // namespace shardsim

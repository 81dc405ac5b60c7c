#include "sim/app/process/open_backend.hpp"

#include "sim/kernel/error.hpp"

#include "sim/app/process/open_mpi.hpp"

namespace shardsim {

void require_backend(const ProcessOptions& options, int /*ranks*/) {
  if (options.backend == "mpi") return require_mpi();
  throw Error(ExitCode::backend_failed, "E1071", "there is no backend " + options.backend);
}

std::unique_ptr<OpenBackend> open_backend(const ProcessOptions& options,
                                          const BackendSetting& setting, const SharedKeys& /*keys*/,
                                          CallWatch& watch) {
  require_backend(options, setting.ranks());
  return open_mpi(options, setting, watch);
}

}  // namespace shardsim

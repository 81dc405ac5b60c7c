#include "sim/app/command_doctor.hpp"

#include <ostream>

#include "backends/mpi/mpi_library.hpp"
#include "backends/nccl/nccl_probe.hpp"

namespace shardsim {

int command_doctor(const std::string& nccl_library, bool json, std::ostream& out) {
  const std::vector<ProbeRow> rows = doctor_rows(probe_nccl(nccl_library), {probe_mpi_module()});
  out << (json ? render_doctor_json(rows) : render_doctor(rows));
  return 0;
}

}  // namespace shardsim

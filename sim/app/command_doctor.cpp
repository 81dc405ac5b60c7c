#include "sim/app/command_doctor.hpp"

#include <ostream>

#include "backends/mpi/mpi_library.hpp"
#include "backends/nccl/nccl_probe.hpp"

namespace shardsim {

int command_doctor(const std::string& nccl_library, bool json, std::ostream& out) {
  const DoctorReport report = doctor_report(probe_nccl(nccl_library), {probe_mpi_module()});
  out << (json ? render_doctor_json(report) : render_doctor(report));
  return 0;
}

}  // namespace shardsim

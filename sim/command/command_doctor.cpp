#include <ostream>
#include <string>

#include <CLI/CLI.hpp>

#include "backends/mpi/mpi_library.hpp"
#include "backends/nccl/nccl_probe.hpp"

#include "sim/command/verbs.hpp"

namespace shardsim {

namespace {

struct DoctorArguments {
  std::string nccl_library;  // The value of --nccl-lib.
  bool json = false;
};

void add_doctor_options(CLI::App& app, DoctorArguments& arguments) {
  app.add_flag("--json", arguments.json, "Print the rows as JSON");
  app.add_option("--nccl-lib", arguments.nccl_library, "Path of libnccl.so");
}

// `shardsim doctor`: the parts of this machine that --backend=mpi and --backend=nccl need, each
// missing one with its remedy, and whether each backend is ready. Always returns 0: no part is
// required.
int command_doctor(const DoctorArguments& arguments, const Console& console) {
  const DoctorReport report =
      doctor_report(probe_nccl(arguments.nccl_library), {probe_mpi_module()});
  console.out << (arguments.json ? render_doctor_json(report) : render_doctor(report));
  return 0;
}

}  // namespace

Verb doctor_verb() {
  return with_arguments<DoctorArguments>(
      {.name = "doctor",
       .summary = "Check what this machine has for real backends",
       .group = VerbGroup::measure,
       .examples = {{"shardsim doctor", "which backends can run here, and why others cannot"}}},
      add_doctor_options, command_doctor);
}

}  // namespace shardsim

#include <memory>
#include <ostream>
#include <string>

#include <CLI/CLI.hpp>

#include "backends/mpi/mpi_library.hpp"
#include "backends/nccl/nccl_probe.hpp"

#include "sim/command/verbs.hpp"

namespace shardsim {

namespace {

// `shardsim doctor`: the parts of this machine that --backend=mpi and --backend=nccl need, each
// missing one with its remedy, and whether each backend is ready. Always returns 0: no part is
// required. `nccl_library`: the value of --nccl-lib.
int command_doctor(const std::string& nccl_library, bool json, std::ostream& out) {
  const DoctorReport report = doctor_report(probe_nccl(nccl_library), {probe_mpi_module()});
  out << (json ? render_doctor_json(report) : render_doctor(report));
  return 0;
}

}  // namespace

Verb doctor_verb() {
  struct Arguments {
    std::string nccl_library;
    bool json = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  return {.name = "doctor",
          .summary = "Check what this machine has for real backends",
          .add_options =
              [arguments](CLI::App& app) {
                app.add_flag("--json", arguments->json, "Print the rows as JSON");
                app.add_option("--nccl-lib", arguments->nccl_library, "Path of libnccl.so");
              },
          .run =
              [arguments](const Console& console) {
                return command_doctor(arguments->nccl_library, arguments->json, console.out);
              },
          .wants_json = [arguments] { return arguments->json; },
          .group = VerbGroup::measure,
          .examples = {{"shardsim doctor", "which backends can run here, and why others cannot"}}};
}

}  // namespace shardsim

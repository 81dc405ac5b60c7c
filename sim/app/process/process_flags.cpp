#include "sim/app/process/process_flags.hpp"

#include <CLI/CLI.hpp>

namespace shardsim {

void add_process_options(CLI::App& verb, ProcessOptions& process) {
  verb.add_option("--backend", process.backend,
                  "fiber (simulated), mpi or nccl (one process per rank, held against fiber)")
      ->check(CLI::IsMember({"fiber", "mpi", "nccl"}));
  verb.add_option("--timeout", process.timeout_s,
                  "Seconds without a sign of life, or of progress, after which a real run is lost")
      ->check(CLI::Range(1.0, 86400.0));
  verb.add_option_function<std::string>(
          "--mpi-collectives",
          [&process](const std::string& whose) { process.native_collectives = whose == "native"; },
          "own (of messages, as simulated) or native (those of the MPI library)")
      ->check(CLI::IsMember({"own", "native"}));
  verb.add_option("--nccl-lib", process.nccl_library, "Path of libnccl.so, if it is not found");
}

}  // namespace shardsim

#include "sim/real/process_options.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/kernel/text.hpp"

namespace shardsim {

namespace {

// CLI::Range accepts NaN, which is neither below nor above a limit.
std::string seconds_problem(const std::string& text) {
  constexpr double kLeast = 1.0;
  constexpr double kMost = 86400.0;
  const auto seconds = parse_number<double>(text);
  if (seconds && *seconds >= kLeast && *seconds <= kMost) return "";
  return fmt::format("\"{}\" is not a number of seconds from {} to {}", text, kLeast, kMost);
}

}  // namespace

void add_process_options(CLI::App& verb, ProcessOptions& process) {
  verb.add_option("--backend", process.backend,
                  "fiber (simulated), mpi or nccl (one process per rank, held against fiber)")
      ->check(CLI::IsMember({"fiber", "mpi", "nccl"}));
  verb.add_option("--timeout", process.timeout_s,
                  "Seconds without a sign of life, or of progress, after which a real run is lost")
      ->check(seconds_problem)
      ->type_name("FLOAT in [1 - 86400]");
  verb.add_option_function<std::string>(
          "--mpi-collectives",
          [&process](const std::string& whose) { process.native_collectives = whose == "native"; },
          "own (of messages, as simulated) or native (those of the MPI library)")
      ->check(CLI::IsMember({"own", "native"}));
  verb.add_option("--nccl-lib", process.nccl_library, "Path of libnccl.so, if it is not found");
}

}  // namespace shardsim

#include "sim/command/shared_options.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/kernel/text.hpp"

#include "sim/explore/scenario_explorer.hpp"
#include "sim/real/process_options.hpp"

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

// More than anyone waits for.
constexpr int kMostSchedules = 1'000'000;
constexpr int kMostDepth = 100;

// CLI11 reads -1 and numbers beyond 64 bits as the largest seed.
std::string seed_problem(const std::string& text) {
  if (parse_number<std::uint64_t>(text)) return "";
  return "\"" + text + "\" is not a whole number from 0 to 2^64 - 1";
}

}  // namespace

void add_output_format(CLI::App& verb, bool& json, bool& annotations, const char* json_words,
                       bool* junit) {
  verb.add_flag("--json", json, json_words);
  std::vector<std::string> formats = {"text", "json", "github"};
  if (junit != nullptr) formats.emplace_back("junit");
  verb.add_option_function<std::string>(
          "--output-format",
          [&json, &annotations, junit](const std::string& format) {
            json = format == "json";
            annotations = format == "github";
            if (junit != nullptr) *junit = format == "junit";
          },
          junit == nullptr ? "Format of problems; github: workflow annotations"
                           : "Format of problems; github: workflow annotations, junit: test cases")
      ->check(CLI::IsMember(formats));
}

void add_process_options(CLI::App& verb, ProcessOptions& process) {
  verb.add_option("--backend", process.backend,
                  "fiber (simulated), mpi or nccl (one process per rank, compared with fiber)")
      ->check(CLI::IsMember({"fiber", "mpi", "nccl"}));
  verb.add_option("--timeout", process.timeout_s,
                  "Seconds without a heartbeat or progress after which a real run fails")
      ->check(seconds_problem)
      ->type_name("FLOAT in [1 - 86400]");
  verb.add_option_function<std::string>(
          "--mpi-collectives",
          [&process](const std::string& whose) { process.native_collectives = whose == "native"; },
          "own (made of messages, as simulated) or native (the MPI library's)")
      ->check(CLI::IsMember({"own", "native"}));
  verb.add_option("--nccl-lib", process.nccl_library, "Path of libnccl.so, if it is not found");
}

void add_explore_options(CLI::App& verb, ExploreArguments& arguments) {
  CLI::Option* const explore =
      verb.add_option("--explore", arguments.mode,
                      "Run under many schedules: pct (random ones) or dpor (all of them)")
          ->check(CLI::IsMember({"pct", "dpor"}));
  verb.add_option("--schedules", arguments.schedules, "pct: number of random schedules")
      ->check(CLI::Range(1, kMostSchedules))
      ->needs(explore)
      ->capture_default_str();
  verb.add_option("--depth", arguments.depth,
                  "pct: number of receives from any source whose order matters")
      ->check(CLI::Range(1, kMostDepth))
      ->needs(explore)
      ->capture_default_str();
  verb.add_option("--explore-seed", arguments.seed, "pct: seed of the random schedules")
      ->check(seed_problem)
      ->needs(explore)
      ->capture_default_str();
  // Not bound as an optional: for those CLI11 takes an empty value for none.
  CLI::Option* const replay =
      verb.add_option_function<std::string>(
              "--replay", [&arguments](const std::string& token) { arguments.replay = token; },
              "Repeat the run of a report's token")
          ->excludes(explore);
  verb.add_flag("--replay-force", arguments.replay_force, "Accept a token of another build")
      ->needs(replay);
  verb.add_flag("--shrink", arguments.shrink,
                "After a failure, look for a smaller scenario that fails with the same code");
}

}  // namespace shardsim

#include "sim/sweep/shard.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"
#include "sim/kernel/text.hpp"

#include "sim/console/shell_word.hpp"

namespace shardsim {
namespace {

constexpr std::size_t kMostShards = 1'000'000;
constexpr const char* kWayOut =
    "give the shard itself: --shard 0/4, with 0 to 3 for four processes";

std::size_t variable(const EnvironmentLookup& lookup, const std::string& name,
                     std::optional<std::size_t> otherwise) {
  const std::optional<std::string> text = lookup(name);
  if (!text && otherwise) return *otherwise;
  const std::optional<std::size_t> number = text ? parse_number<std::size_t>(*text) : std::nullopt;
  if (number) return *number;
  throw UsageError("E1313",
                   text ? fmt::format("environment variable {} is \"{}\", not a whole number", name,
                                      text->substr(0, 40))
                        : fmt::format("environment variable {} is not set, as in a Slurm array it "
                                      "is",
                                      name),
                   kWayOut);
}

// Task IDs of an array go from MIN in steps of STEP. One with gaps is no division into shards.
std::optional<Shard> shard_of_array(const EnvironmentLookup& lookup) {
  if (!lookup("SLURM_ARRAY_TASK_ID")) return std::nullopt;
  const std::size_t id = variable(lookup, "SLURM_ARRAY_TASK_ID", std::nullopt);
  const std::size_t least = variable(lookup, "SLURM_ARRAY_TASK_MIN", std::nullopt);
  const std::size_t count = variable(lookup, "SLURM_ARRAY_TASK_COUNT", std::nullopt);
  const std::size_t step = variable(lookup, "SLURM_ARRAY_TASK_STEP", 1);
  const bool regular =
      step > 0 && id >= least && (id - least) % step == 0 && (id - least) / step < count;
  if (!regular) {
    throw UsageError("E1313",
                     fmt::format("task {} is none of {} tasks from {} in steps of {}: the Slurm "
                                 "array has gaps",
                                 id, count, least, step),
                     kWayOut);
  }
  return Shard{(id - least) / step, count, "a Slurm array"};
}

struct Launcher {
  const char* name;
  std::vector<std::string_view> prefixes;  // Prefixes of its variables.
};

const std::vector<Launcher>& launchers() {
  static const std::vector<Launcher> kLaunchers = {
      {"torchrun", {"RANK", "WORLD_SIZE"}},
      {"openmpi", {"OMPI_"}},
      {"slurm", {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_ID"}},
      {"pmi", {"PMI_"}},
  };
  return kLaunchers;
}

// As the launcher of processes reads them, one launcher at a time.
std::optional<Shard> shard_of_launcher(const Launcher& launcher, const EnvironmentLookup& lookup) {
  const EnvironmentLookup only = [&](const std::string& name) -> std::optional<std::string> {
    for (const std::string_view prefix : launcher.prefixes) {
      if (name.rfind(prefix, 0) == 0) return lookup(name);
    }
    return std::nullopt;
  };
  const std::optional<LaunchedRank> launched = find_launched_rank(only);
  if (!launched) return std::nullopt;
  return Shard{static_cast<std::size_t>(launched->rank),
               static_cast<std::size_t>(launched->world_size), launcher.name};
}

Shard automatic_shard(const EnvironmentLookup& lookup) {
  std::optional<Shard> chosen = shard_of_array(lookup);
  bool by_mpi = false;
  for (const Launcher& launcher : launchers()) {
    // Daemons of mpirun are started by srun, and hand their own variables down.
    if (by_mpi && std::string_view(launcher.name) == "slurm") continue;
    const std::optional<Shard> shard = shard_of_launcher(launcher, lookup);
    if (!shard) continue;
    by_mpi = by_mpi || std::string_view(launcher.name) == "openmpi";
    if (!chosen || chosen->count == 1) {
      chosen = shard;
    } else if (shard->count > 1 &&
               (shard->index != chosen->index || shard->count != chosen->count)) {
      throw UsageError(
          "E1314",
          fmt::format("{} says shard {} of {}, but {} says {} of {}", chosen->source, chosen->index,
                      chosen->count, shard->source, shard->index, shard->count),
          kWayOut);
    }
  }
  if (!chosen && lookup("PMIX_RANK")) {
    throw UsageError("E1313", "PMIX_RANK is set, but no variable says how many processes there are",
                     kWayOut);
  }
  return chosen.value_or(Shard{});
}

// A scheduler takes seconds to start a task, so each should have many points. Few sites let one
// user start more than some dozens at a time.
constexpr std::size_t kPointsPerTask = 50;
constexpr std::size_t kMostTasks = 64;

std::string csv_beside(const std::string& folder) {
  return std::filesystem::path(folder).filename().replace_extension(".csv").string();
}

std::string merge_command(const std::string& folder) {
  return fmt::format("shardsim merge {} --csv -o {}", shell_word(folder),
                     shell_word(csv_beside(folder)));
}

// A Makefile needs a dollar written twice.
std::string make_words(const std::string& command) {
  std::string text;
  for (const char c : command) text += c == '$' ? std::string("$$") : std::string(1, c);
  return text;
}

std::string slurm_script(const PartHeader& header, const ScriptSetting& setting) {
  return fmt::format(R"(#!/bin/bash
# {} points in {} tasks. Submit with sbatch; submit again to go on where tasks were stopped.
#SBATCH --job-name=shardsim-sweep
#SBATCH --array=0-{}
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=4
#SBATCH --time=01:00:00
exec {} --shard auto
# When all tasks have ended: {}
)",
                     header.num_points, setting.shards, setting.shards - 1, header.command,
                     merge_command(setting.folder));
}

std::string parallel_script(const PartHeader& header, const ScriptSetting& setting) {
  return fmt::format(R"(#!/bin/sh
# {} points in {} parts, as many at a time as there are cores. Run again to go on. With
# --sshlogin, GNU parallel takes other machines, too, that see the same folder.
set -e
seq 0 {} | parallel {} --jobs 1 --shard '{{}}'/{}
{}
)",
                     header.num_points, setting.shards, setting.shards - 1, header.command,
                     setting.shards, merge_command(setting.folder));
}

std::string make_script(const PartHeader& header, const ScriptSetting& setting) {
  return fmt::format(
      R"(# {0} points in {1} parts. Run with make -j CORES -f THIS_FILE; run again to go on.
{2}: $(addprefix shard-,$(shell seq 0 {3}))
	{4}
shard-%:
	{5} --jobs 1 --shard $*/{1}
)",
      header.num_points, setting.shards, csv_beside(setting.folder), setting.shards - 1,
      make_words(merge_command(setting.folder)), make_words(header.command));
}

}  // namespace

Shard shard_of(const std::string& text, const EnvironmentLookup& lookup) {
  if (text == "auto") return automatic_shard(lookup);
  const std::vector<std::string_view> parts = split_at(text, '/');
  const auto index = parse_number<std::size_t>(parts.front());
  const auto count = parts.size() == 2 ? parse_number<std::size_t>(parts[1]) : std::nullopt;
  if (!index || !count || *index >= *count || *count > kMostShards) {
    throw UsageError("E1313", fmt::format("--shard \"{}\" is not a shard", text.substr(0, 40)),
                     "write i/n with i from 0 to n - 1, such as 0/4, or auto");
  }
  return {*index, *count, "--shard"};
}

std::size_t default_shards(std::size_t num_points) {
  return std::clamp((num_points + kPointsPerTask - 1) / kPointsPerTask, std::size_t{1}, kMostTasks);
}

std::string script_of(const PartHeader& header, const ScriptSetting& setting) {
  if (setting.kind == "slurm") return slurm_script(header, setting);
  return setting.kind == "parallel" ? parallel_script(header, setting)
                                    : make_script(header, setting);
}

}  // namespace shardsim

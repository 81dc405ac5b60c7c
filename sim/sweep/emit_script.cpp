#include "sim/sweep/emit_script.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "sim/console/shell_word.hpp"

namespace shardsim {

namespace {

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

std::size_t default_shards(std::size_t num_points) {
  return std::clamp((num_points + kPointsPerTask - 1) / kPointsPerTask, std::size_t{1}, kMostTasks);
}

std::string script_of(const PartHeader& header, const ScriptSetting& setting) {
  if (setting.kind == "slurm") return slurm_script(header, setting);
  return setting.kind == "parallel" ? parallel_script(header, setting)
                                    : make_script(header, setting);
}

}  // namespace shardsim

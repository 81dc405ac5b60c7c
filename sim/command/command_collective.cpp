#include <algorithm>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "sim/kernel/error.hpp"
#include "sim/kernel/tracked.hpp"

#include "backends/rendezvous/launch_environment.hpp"

#include "scenarios/presets.hpp"
#include "scenarios/suggest.hpp"
#include "sim/collective/collective_run.hpp"
#include "sim/collective/collective_setting.hpp"
#include "sim/command/shared_options.hpp"
#include "sim/command/verbs.hpp"
#include "sim/console/output_format.hpp"
#include "sim/console/progress.hpp"
#include "sim/console/shell_word.hpp"
#include "sim/experiment/assumptions.hpp"
#include "sim/real/process_options.hpp"
#include "sim/run/run.hpp"

namespace shardsim {

namespace {

// Buffers of all ranks, as far as they are on this machine, at the largest size.
void require_memory(const CollectiveSetting& setting, int ranks_here) {
  const ElementCounts counts = setting.counts(setting.sizes.back());
  const double needed = static_cast<double>(counts.send + counts.receive) *
                        static_cast<double>(size_of(setting.dtype)) * ranks_here;
  const double there =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (needed <= there) return;
  constexpr double kGibi = 1024.0 * 1024.0 * 1024.0;
  throw LimitError("E1089",
                   fmt::format("buffers of {} ranks take {:.1f} GiB, this machine has {:.1f}",
                               ranks_here, needed / kGibi, there / kGibi),
                   "use a smaller -e, fewer --ranks, or, simulated, -c 0 (times without data)");
}

void add_collective_options(CLI::App& verb, CollectiveArguments& arguments) {
  verb.add_option("operation", arguments.operation, one_of_list(tested_operation_names()));
  verb.add_option("-b,--minbytes", arguments.min_bytes, "Smallest size (32M); K, M, G: 1024s");
  verb.add_option("-e,--maxbytes", arguments.max_bytes, "Largest size (32M)");
  verb.add_option("-i,--stepbytes", arguments.step_bytes, "Fixed step between sizes (1M)");
  verb.add_option("-f,--stepfactor", arguments.factor, "Factor between sizes, instead of a step");
  const CLI::Range counts(0, 1000000);
  const CLI::Range machine(1, 16384);
  verb.add_option("-n,--iters", arguments.iterations, "Timed operations per size (20)")
      ->check(CLI::Range(1, 1000000));
  verb.add_option("-w,--warmup_iters", arguments.warmup, "Untimed operations before (5)")
      ->check(counts);
  verb.add_option("-c,--check", arguments.checks, "Checked operations per size (1); 0: none")
      ->check(counts);
  verb.add_option("-o,--op", arguments.reduction, "sum, prod, min, max or avg");
  verb.add_option("-d,--datatype", arguments.dtype,
                  "int8, int32, int64, half, float, double or bfloat16");
  verb.add_option("-r,--root", arguments.root,
                  "The root of broadcast, reduce, gather and scatter (0)")
      ->check(counts);
  verb.add_option("--ranks", arguments.ranks, "Number of ranks (8 simulated, 2 processes)")
      ->check(machine);
  verb.add_option("--nodes", arguments.nodes, "Number of nodes (the fewest that hold the ranks)")
      ->check(machine);
  verb.add_option("--system", arguments.system,
                  "Simulated machine: a preset (dgx-h100) or a scenario's file");
  verb.add_option("--set", arguments.overrides,
                  "Override a field of the machine: a.b=value; repeatable")
      ->allow_extra_args(false);
  verb.add_flag("--json", arguments.json, "Print one JSON object instead of the table");
  verb.add_flag("-q,--quiet", arguments.quiet, "Print no progress");
  add_process_options(verb, arguments.process);
}

// Fields that somebody set and these times do not depend on. A scenario's file as --system may say
// much that is of no use here, so only --set counts.
std::vector<std::string> settings_without_effect(const CollectiveArguments& arguments,
                                                 const ReadLog& reads) {
  std::vector<std::string> warnings;
  if (arguments.overrides.empty()) return warnings;
  const Scenario machine = scenario_of_system(arguments.system, arguments.overrides);
  for (std::string& warning : fields_without_effect(machine, reads)) {
    const bool is_set = std::ranges::any_of(arguments.overrides, [&](const std::string& flag) {
      const std::string field = overridden_field(flag);
      return warning.starts_with(field + " ") || warning.starts_with(field + ".");
    });
    if (is_set) warnings.push_back(std::move(warning));
  }
  return warnings;
}

// `shardsim collective OP`: times one operation over sizes, checks every element, and prints the
// table or the JSON. Returns the exit code: 1 for a wrong element, or for bytes on the wire that
// are not those of our own count where they must be. Throws Error.
int command_collective(CollectiveArguments& arguments, const Console& console) {
  arguments.process.words = console.words;
  const bool measures = arguments.process.on_processes();
  const std::optional<LaunchedRank> launched =
      measures ? find_launched_rank() : std::optional<LaunchedRank>();
  const CollectiveSetting setting =
      collective_setting_of(arguments, launched ? launched->world_size : 0);
  Progress progress(console.err, !arguments.quiet);
  RunHooks hooks = console.hooks;
  hooks.on_progress = [&progress] { progress.tick(); };
  CollectiveRun run;
  std::vector<std::string> warnings;
  if (measures) {
    const int here = launched ? launched->local_size.value_or(1) : setting.ranks();
    require_memory(setting, here);
    int exit_code = 0;
    std::optional<CollectiveRun> measured =
        measure_collectives(setting, arguments.process, hooks, exit_code, console.err);
    if (!measured) return exit_code;
    run = std::move(*measured);
    add_simulation(setting, run);
  } else {
    if (setting.checks > 0) require_memory(setting, setting.ranks());
    ReadLog reads;
    {
      const ReadLog::Scope noted(&reads);
      run = simulate_collectives(setting, hooks);
    }
    warnings = settings_without_effect(arguments, reads);
  }
  progress.done();
  tell_warnings(warnings, console.err);
  const std::string& backend = arguments.process.backend;
  console.out << (arguments.json ? collective_json(setting, backend, run)
                                 : collective_table(setting, backend, run));
  const bool good = wrong_elements(run) == 0 && wire_agrees(run);
  return static_cast<int>(good ? ExitCode::ok : ExitCode::check_failed);
}

}  // namespace

Verb collective_verb() {
  return with_arguments<CollectiveArguments>(
      {.name = "collective",
       .summary = "Time and check one collective, as nccl-tests does",
       .group = VerbGroup::measure,
       .examples = {{"shardsim collective all_reduce -b 8 -e 1G -f 2",
                     "nccl-tests' table, simulated"}}},
      add_collective_options, command_collective);
}

}  // namespace shardsim

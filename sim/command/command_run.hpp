#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "sim/console/whole_file.hpp"
#include "sim/explore/scenario_explorer.hpp"
#include "sim/real/process_options.hpp"
#include "sim/run/run.hpp"

namespace shardsim {

struct RunArguments {
  std::string file;                    ///< kStandardInput: `text` was read from standard input.
  std::optional<std::string> text;     ///< The scenario itself; `file` is only its name then.
  std::vector<std::string> overrides;  ///< "a.b=value" each.
  std::string out_directory = ".";     ///< Files named in the scenario are written below it.
  /// Files to write and to read, both relative to the current folder.
  std::optional<std::string> record_decisions;
  std::optional<std::string> replay_decisions;
  std::optional<std::string> dump_state;  ///< A folder, relative to the current one.
  bool json = false;
  bool annotations = false;  ///< Problems once more, as annotations of GitHub Actions.
  bool assumptions = false;  ///< All assumptions of the result, below the summary.
  bool quiet = false;
  bool color = false;
  std::string next_command;  ///< The suggestion after success; empty: found from the result.
  ProcessOptions process;
  ExploreArguments explore;
};

/// `shardsim FILE`: loads, runs, prints the summary or the JSON, writes the files the scenario asks
/// for. Returns the exit code. Throws Error. `hooks`: for tests; progress is always reported.
int command_run(const RunArguments& arguments, std::ostream& out, std::ostream& err,
                RunHooks hooks = {});

}  // namespace shardsim

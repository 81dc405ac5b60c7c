#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "sim/app/run.hpp"

namespace shardsim {

struct RunArguments {
  std::string file;
  std::vector<std::string> overrides;  ///< "a.b=value" each.
  std::string out_directory = ".";     ///< Files named in the scenario are written below it.
  std::string record_decisions;        ///< A file to write, below out_directory; "": none.
  std::string replay_decisions;        ///< A file to read; "": none.
  bool json = false;
  bool quiet = false;
  bool color = false;
};

/// `shardsim FILE`: loads, runs, prints the summary or the JSON, writes the files the scenario asks
/// for. Returns the exit code. Throws Error. `hooks`: for tests; progress is told anyway.
int command_run(const RunArguments& arguments, std::ostream& out, std::ostream& err,
                RunHooks hooks = {});

/// `shardsim check FILE...`: validates only. Throws the problems of all files together.
int command_check(const std::vector<std::string>& files, const std::vector<std::string>& overrides,
                  bool json, std::ostream& out, std::ostream& err);

}  // namespace shardsim

#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "sim/console/verb.hpp"
#include "sim/run/run.hpp"

namespace shardsim {

/// The words of `shardsim export`.
struct ExportArguments {
  std::string kind;
  std::string file;                    ///< The scenario.
  std::vector<std::string> overrides;  ///< As --set.
  std::string output;  ///< A file; for kinds with one per rank, the prefix of their names.
  bool lowered = false;
  bool sweep = false;  ///< nccl-tests: more sizes than the run's.
  bool quiet = false;
};

/// `shardsim export KIND FILE`: a file for other programs, made from a scenario (schedule) or from
/// its run. Returns the exit code. Throws Error.
int command_export(const ExportArguments& arguments, std::ostream& out, std::ostream& err,
                   const RunHooks& hooks);

[[nodiscard]] Verb export_verb();

}  // namespace shardsim

#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "sim/accuracy/tested_layout.hpp"
#include "sim/console/verb.hpp"

namespace shardsim {

struct CalibrateArguments {
  std::vector<std::string> files;  ///< "-": standard input.
  std::string system = "dgx-h100";
  std::vector<std::string> overrides;  ///< Overrides of the system's scenario, as --set.
  TestedLayoutOptions layout;
  std::string fit = "both";  ///< Or "bandwidth", "latency".
  std::string out;           ///< The file for the overrides; empty: none.
};

/// `shardsim calibrate FILE...`: fits system.nccl to measurements of nccl-tests. It prints the
/// system's error with and without the fit, and writes the fit with all else that system.nccl has.
/// Returns 0. Throws Error: E0940 to E0951, and E0901 for a file that cannot be written.
int command_calibrate(const CalibrateArguments& arguments, std::istream& input, std::ostream& out,
                      std::ostream& err);

[[nodiscard]] Verb calibrate_verb();

}  // namespace shardsim

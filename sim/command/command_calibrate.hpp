#pragma once

#include <string>
#include <vector>

#include "scenarios/scenario.hpp"
#include "sim/accuracy/nccl_tests_table.hpp"

namespace shardsim {

struct Console;

/// The first word, where files are of kernels.
inline constexpr const char* kKernelsWord = "kernels";

/// The words of `shardsim calibrate`.
struct CalibrateArguments {
  std::vector<std::string> files;  ///< "-": standard input; first "kernels": tables and traces.
  std::string system = "dgx-h100";
  std::vector<std::string> overrides;  ///< Overrides of the system's scenario, as --set.
  std::string out;                     ///< The file for what is fitted; empty: none.
  // For outputs of nccl-tests.
  TestedLayoutOptions layout;
  std::string fit = "both";  ///< Or "bandwidth", "latency".
  // For kernels: "NAME=VALUE" each.
  std::vector<std::string> columns;
  std::vector<std::string> values;
  std::vector<std::string> where;
  bool quiet = false;
};

/// The file of --out is none of those that are read, `given` among them, and can be written. Throws
/// UsageError (E0910, E0901).
void check_calibrate_paths(const CalibrateArguments& arguments, const std::vector<FileRead>& given);

/// Prints the report of a fit, and writes the fit to the file of --out, if there is one. With
/// --quiet nothing is printed.
void tell_fit(const CalibrateArguments& arguments, const std::string& report,
              const std::string& overlay, const Console& console);

/// `shardsim calibrate kernels FILE...`: fits constants of kernels to tables and traces. It prints
/// the error with and without the fit, and writes the list system.device.kernel_constants. Returns
/// 0. Throws Error: E0921 to E0923, E0957 to E0965, and E0901 for a file that cannot be
/// written.
int calibrate_kernels(const CalibrateArguments& arguments, const Console& console);

}  // namespace shardsim

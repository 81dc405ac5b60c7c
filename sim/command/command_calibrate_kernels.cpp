#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "scenarios/load.hpp"
#include "scenarios/presets.hpp"
#include "scenarios/read_file.hpp"
#include "scenarios/source_text.hpp"
#include "scenarios/suggest.hpp"
#include "sim/accuracy/kernel_calibration.hpp"
#include "sim/command/command_calibrate.hpp"
#include "sim/command/verbs.hpp"
#include "sim/console/output_paths.hpp"
#include "sim/console/whole_file.hpp"
#include "sim/experiment/experiment.hpp"

namespace shardsim {

namespace {

constexpr std::size_t kMostTraceBytes = std::size_t{1} << 30;

// Options of the other kind would be read by nobody.
void refuse_nccl_options(const CalibrateArguments& arguments) {
  const TestedLayoutOptions& layout = arguments.layout;
  const char* const given = layout.ranks != 0           ? "--ranks"
                            : layout.nodes != 0         ? "--nodes"
                            : !layout.operation.empty() ? "--op"
                            : arguments.fit != "both"   ? "--fit"
                                                        : nullptr;
  if (given == nullptr) return;
  throw UsageError("E0964", fmt::format("{} is for outputs of nccl-tests, not for kernels", given),
                   "leave it out");
}

// "batch=groups".
std::vector<ColumnChoice> choices_of(const std::vector<std::string>& words, const char* option,
                                     const std::vector<std::string>& names) {
  std::vector<ColumnChoice> choices;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw UsageError("E0964",
                       fmt::format("{} \"{}\" is no NAME=VALUE", option, printable(word, 60)),
                       fmt::format("write it as {} dtype=bf16", option));
    }
    choices.push_back({word.substr(0, equals), word.substr(equals + 1)});
    const std::string& name = choices.back().name;
    if (!names.empty() && std::ranges::find(names, name) == names.end()) {
      const std::string near = nearest(name, names);
      throw UsageError("E0964",
                       fmt::format("{} \"{}\": nothing is called {}", option, printable(word, 60),
                                   printable(name, 40)),
                       (near.empty() ? std::string() : "did you mean " + near + "? ") +
                           "the names are " + one_of_list(names));
    }
  }
  return choices;
}

// A condition on a column that no table has would leave nothing out.
void require_columns(const std::vector<ColumnChoice>& choices, const char* option, bool is_value,
                     const std::vector<KernelTable>& tables) {
  for (const ColumnChoice& choice : choices) {
    const std::string& column = is_value ? choice.value : choice.name;
    std::vector<std::string> all;
    for (const KernelTable& table : tables) {
      all.insert(all.end(), table.columns.begin(), table.columns.end());
    }
    if (std::ranges::find(all, column) != all.end()) continue;
    const std::string near = nearest(column, all);
    throw UsageError("E0957",
                     fmt::format("{} names the column \"{}\", which no table has", option,
                                 printable(column, 60)),
                     near.empty() ? "compare it with the first line of the table"
                                  : "did you mean \"" + near + "\"?");
  }
}

std::string whole_text(const std::string& path, const Console& console) {
  return path == kStandardInput ? read_standard_input(console.in, kMostTraceBytes)
                                : read_regular_file(path, kMostTraceBytes);
}

struct ReadKernels {
  std::vector<std::string> files;
  std::vector<KernelTable> tables;
  std::vector<KernelTrace> traces;
  std::vector<KernelMeasurement> rows;
};

ReadKernels read_kernels(const CalibrateArguments& arguments, const Console& console) {
  const KernelTableOptions options{
      .columns = choices_of(arguments.columns, "--column", kernel_column_names()),
      .values = choices_of(arguments.values, "--value", kernel_column_names()),
      .where = choices_of(arguments.where, "--where", {})};
  ReadKernels read;
  read.files.assign(arguments.files.begin() + 1, arguments.files.end());
  for (std::size_t file = 0; file < read.files.size(); ++file) {
    const std::string text = whole_text(read.files[file], console);
    const auto add = [&](std::vector<KernelMeasurement>& rows) {
      for (KernelMeasurement& row : rows) {
        row.source = file;
        read.rows.push_back(row);
      }
    };
    if (looks_like_trace(text)) {
      add(read.traces.emplace_back(parse_kernel_trace(text, read.files[file])).rows);
    } else {
      add(read.tables.emplace_back(parse_kernel_table(text, read.files[file], options)).rows);
    }
  }
  require_columns(options.columns, "--column", true, read.tables);
  require_columns(options.where, "--where", false, read.tables);
  return read;
}

}  // namespace

int calibrate_kernels(const CalibrateArguments& arguments, const Console& console) {
  refuse_nccl_options(arguments);
  if (arguments.files.size() < 2) {
    throw UsageError("E0964", "no table or trace of kernels is given",
                     "name the files, as in: shardsim calibrate kernels products.csv --system "
                     "dgx-h100");
  }
  const Scenario given = scenario_of_system(arguments.system, arguments.overrides);
  check_calibrate_paths(arguments, given.files);
  const Cluster cluster = compile(given).cluster();
  if (cluster.device.kernels == nullptr) {
    throw UsageError("E0964",
                     fmt::format("operations on {} are priced by its peak and bandwidth, and have "
                                 "no constants to begin with",
                                 cluster.name),
                     "name the nearest GPU that has some: --set system.device.kernels=h100-sxm");
  }
  const ReadKernels read = read_kernels(arguments, console);
  // Coverage is worth knowing where there is too little to fit to, too.
  if (!arguments.quiet) console.out << kernel_measurements_text(read.tables, read.traces);
  const KernelFit fit = fit_kernels(cluster.device, read.rows);
  const KernelCalibration report{.machine = cluster.name,
                                 .device = given.system.device,
                                 .files = read.files,
                                 .fit = fit,
                                 .out = arguments.out};
  tell_fit(arguments, kernel_calibration_text(report), kernel_overlay_text(report), console);
  return 0;
}

}  // namespace shardsim

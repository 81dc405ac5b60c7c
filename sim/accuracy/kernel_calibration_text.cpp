#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sim/hardware/kernels/replaced_constants.hpp"

#include "reports/units.hpp"
#include "scenarios/source_text.hpp"
#include "sim/accuracy/kernel_calibration.hpp"

namespace shardsim {

namespace {

constexpr std::size_t kShownKernels = 12;
constexpr std::size_t kShownName = 60;

std::string percent_of(double part, double whole) {
  return fmt::format("{:5.1f} %", whole > 0.0 ? kPercent * part / whole : 0.0);
}

std::string file_name_of(const std::string& path) {
  return printable(std::filesystem::path(path).filename().string(), 200);
}

// "411 rows of matmul in bf16 (products.csv)": where the constants of a stage come from.
std::string source_of(const KernelCalibration& report, const KernelStage& stage) {
  std::vector<std::string> files;
  for (const std::size_t file : stage.sources) files.push_back(file_name_of(report.files[file]));
  return fmt::format("shardsim calibrate kernels: {} of {} rows of {} ({})", stage.fitted_rows,
                     stage.rows, stage.words, fmt::join(files, ", "));
}

// --- Measurements ------------------------------------------------------------------------------

std::string tables_of_kernels(const std::vector<KernelTable>& tables) {
  std::string text;
  for (const KernelTable& table : tables) {
    text += fmt::format("  {}: {} rows", printable(table.file, 200), table.rows.size());
    if (table.num_left_out > 0) text += fmt::format(", {} left out", table.num_left_out);
    text += "\n";
    if (table.unread.empty()) continue;
    std::vector<std::string> names;
    for (const std::string& name : table.unread) names.push_back(printable(name, 40));
    text += fmt::format("    columns not read: {}\n", fmt::join(names, ", "));
  }
  return text;
}

std::string trace_text(const KernelTrace& trace) {
  const double computing = trace.seconds - trace.communication_seconds;
  std::string text =
      fmt::format("  {}: {} kernels of {:.4g} ms, {:.4g} ms without communication\n",
                  printable(trace.file, 200), trace.kernels, 1e3 * trace.seconds, 1e3 * computing);
  text +=
      fmt::format("    coverage {:.1f} % of the time that computes\n", kPercent * trace.coverage());
  for (std::size_t i = 0; i < kKernelOperations; ++i) {
    if (trace.matched.at(i) == 0.0) continue;
    text += fmt::format("      {}  {}\n", percent_of(trace.matched.at(i), computing),
                        name_of(static_cast<KernelOperation>(i)));
  }
  if (!trace.unmatched.empty()) text += "    not matched\n";
  for (std::size_t i = 0; i < trace.unmatched.size() && i < kShownKernels; ++i) {
    const UnmatchedKernels& each = trace.unmatched[i];
    text +=
        fmt::format("      {}  {} x {}\n               {}\n", percent_of(each.seconds, computing),
                    each.calls, printable(each.name, kShownName), each.why);
  }
  if (trace.unmatched.size() > kShownKernels) {
    double rest = 0.0;
    for (std::size_t i = kShownKernels; i < trace.unmatched.size(); ++i) {
      rest += trace.unmatched[i].seconds;
    }
    text += fmt::format("      {}  {} more names\n", percent_of(rest, computing),
                        trace.unmatched.size() - kShownKernels);
  }
  for (const std::string& note : trace.notes) text += fmt::format("    note: {}\n", note);
  return text;
}

// --- Results -----------------------------------------------------------------------------------

// The mean of fewer errors says little about the next one.
constexpr int kFewHeldOut = 5;

std::string errors_text(const KernelFit& fit) {
  std::string text = fmt::format("\n{:<34}{:>20}    {:>20}\n", "Mean error of the time, %",
                                 "rows fitted to", "rows held out");
  text += fmt::format("{:<34}{:>6}{:>7}{:>7}    {:>6}{:>7}{:>7}\n", "", "rows", "before", "after",
                      "rows", "before", "after");
  for (const KernelErrors& each : fit.errors) {
    text += fmt::format("{:<34}{:>6}{:>7.1f}{:>7.1f}    {:>6}{:>7.1f}{:>7.1f}\n",
                        fmt::format("  {}, {}", name_of(each.operation), name_of(each.precision)),
                        each.rows - each.held_out_rows, kPercent * each.before,
                        kPercent * each.after, each.held_out_rows, kPercent * each.held_out_before,
                        kPercent * each.held_out_after);
  }
  for (const KernelErrors& each : fit.errors) {
    if (each.held_out_rows >= kFewHeldOut) continue;
    text += fmt::format("  note: {} row{} of {}, {}, held out: too few to judge the fit by\n",
                        each.held_out_rows, each.held_out_rows == 1 ? "" : "s",
                        name_of(each.operation), name_of(each.precision));
  }
  return text;
}

std::string constants_text(const KernelCalibration& report) {
  std::string text = fmt::format("\n{:<34}{:>20}{:>14}\n", "Constants", "before", "calibrated");
  for (const KernelStage& stage : report.fit.stages) {
    if (!stage.has_enough) {
      text += fmt::format("  {}: {} rows; {} are needed, and nothing is fitted\n", stage.words,
                          stage.rows, kLeastKernelRows);
      continue;
    }
    for (const FittedKernelConstant& constant : stage.constants) {
      const bool is_most = constant.after == limits_of_constant(constant.name).most;
      text += fmt::format("  {:<32}{:>20.4g}{:>14.4g}{}\n", constant.name, constant.before,
                          constant.after, is_most ? ", the most that it may be" : "");
    }
    if (stage.untold.empty()) continue;
    text += fmt::format("  rows of {} do not tell, and leave as they were:\n    {}\n", stage.words,
                        fmt::join(stage.untold, ", "));
  }
  return text;
}

// Fitted constants, and those that the device had replaced already.
std::vector<KernelConstantSpec> overlay_of(const KernelCalibration& report) {
  std::vector<KernelConstantSpec> overlay;
  for (const KernelStage& stage : report.fit.stages) {
    for (const FittedKernelConstant& constant : stage.constants) {
      overlay.push_back({constant.name, constant.after, source_of(report, stage)});
    }
  }
  for (const KernelConstantSpec& given : report.device.kernel_constants) {
    if (std::ranges::find(overlay, given.name, &KernelConstantSpec::name) == overlay.end()) {
      overlay.push_back(given);
    }
  }
  return overlay;
}

// A JSON string; characters that are not plain text are shown.
std::string json_text(const std::string& text) {
  std::string result = "\"";
  for (const char c : printable(text, 2000)) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

std::string list_text(const KernelCalibration& report, const std::string& indent) {
  std::vector<std::string> entries;
  for (const KernelConstantSpec& each : overlay_of(report)) {
    entries.push_back(
        fmt::format("{0}  {{\"name\": \"{1}\", \"value\": {2},\n{0}   \"source\": {3}}}", indent,
                    each.name, each.value, json_text(each.source)));
  }
  return fmt::format("{0}[\n{1}\n{0}]\n", indent, fmt::join(entries, ",\n"));
}

}  // namespace

std::string kernel_measurements_text(const std::vector<KernelTable>& tables,
                                     const std::vector<KernelTrace>& traces) {
  std::string text = "Measurements\n" + tables_of_kernels(tables);
  for (const KernelTrace& trace : traces) text += trace_text(trace);
  return text;
}

std::string kernel_calibration_text(const KernelCalibration& report) {
  std::string text = fmt::format("\nCalibration of kernels of {}, from the constants of {}\n",
                                 printable(report.machine, 200), report.device.kernels);
  text += constants_text(report) + errors_text(report.fit);
  text += fmt::format(
      "\nHeld out: every fifth row of each file, operation and precision; no constant has seen "
      "it.\n\nUse: in the scenario's \"system\", let \"device\" have \"kernels\": \"{}\" and, as "
      "\"kernel_constants\",\n",
      report.device.kernels);
  text += list_text(report, "  ");
  const std::string kernels = "--set system.device.kernels=" + report.device.kernels;
  if (report.out.empty()) return text;
  return text +
         fmt::format("or run with {} \\\n    --set \"system.device.kernel_constants=$(cat {})\"\n",
                     kernels, report.out);
}

std::string kernel_overlay_text(const KernelCalibration& report) {
  std::string text = fmt::format(
      "// The list \"kernel_constants\" of a device with \"kernels\": \"{}\", made by\n"
      "// `shardsim calibrate kernels`. Mean error of the time before, after, and of rows held "
      "out:\n",
      report.device.kernels);
  for (const KernelErrors& each : report.fit.errors) {
    text += fmt::format("//   {} in {}: {:.1f} %, {:.1f} %, {:.1f} %\n", name_of(each.operation),
                        name_of(each.precision), kPercent * each.before, kPercent * each.after,
                        kPercent * each.held_out_after);
  }
  return text + list_text(report, "");
}

}  // namespace shardsim

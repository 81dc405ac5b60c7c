#include "sim/command/command_calibrate.hpp"

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "sim/hardware/nccl/platform.hpp"

#include "scenarios/presets.hpp"
#include "scenarios/scenario_error.hpp"
#include "scenarios/suggest.hpp"
#include "sim/accuracy/calibration.hpp"
#include "sim/accuracy/nccl_tests_table.hpp"
#include "sim/collective/collective_setting.hpp"
#include "sim/command/verbs.hpp"
#include "sim/console/output_paths.hpp"
#include "sim/console/whole_file.hpp"

namespace shardsim {

namespace {

// The machine of a table.
Cluster cluster_of_table(const CalibrateArguments& arguments, const TestedLayout& layout) {
  Cluster cluster =
      cluster_of_ranks(arguments.system, layout.ranks, layout.nodes, arguments.overrides);
  if (cluster.nccl == nullptr) {
    throw UsageError("E0949",
                     fmt::format("communication of {} is priced by latency and bandwidth of its "
                                 "links, and calibration is of NCCL's model",
                                 cluster.name),
                     "add --set system.network_model=nccl");
  }
  return cluster;
}

// nccl-tests prints the mean over ranks, of which only the last of each node sends to another.
void require_one_tier(const NcclTestsTable& table, const TestedLayout& layout) {
  const bool mixed = layout.nodes > 1 && layout.nodes < layout.ranks;
  if (layout.operation != TestedOperation::sendrecv || !mixed) return;
  throw_problem(
      "E0944", table.place,
      fmt::format("the times of this sendrecv are means over {} ranks, of which {} send to "
                  "another node: they are of neither tier",
                  layout.ranks, layout.nodes),
      "run sendrecv_perf within one node, or with one GPU per node");
}

PricedTable priced(const CalibrateArguments& arguments, NcclTestsTable table) {
  PricedTable result;
  result.layout = tested_layout_of(table, arguments.layout);
  const Cluster cluster = cluster_of_table(arguments, result.layout);
  result.layout.nodes = cluster.num_nodes;
  require_one_tier(table, result.layout);
  result.tier = cluster.num_nodes > 1 ? NetworkTier::between : NetworkTier::inside;
  std::ranges::stable_sort(table.rows, {}, &NcclTestsRow::size);
  std::vector<std::int64_t> sizes;
  for (const NcclTestsRow& row : table.rows) sizes.push_back(row.size);
  result.points = price_sizes(cluster, result.layout.operation, sizes);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    result.points[i].measured_us = table.rows[i].time_us;
  }
  result.table = std::move(table);
  return result;
}

FittedCorrection given_of(const NcclCorrection& correction) {
  return {.bandwidth_factor = correction.bandwidth_factor,
          .added_latency_us = correction.added_latency_us};
}

FittedParts parts_of(const std::string& fit) {
  return {.bandwidth = fit != "latency", .latency = fit != "bandwidth"};
}

void add_calibrate_options(CLI::App& verb, CalibrateArguments& arguments) {
  verb.add_option("file", arguments.files,
                  "Outputs of nccl-tests, or the word kernels and then tables (CSV) or traces "
                  "(PyTorch's profiler) of kernels; -: standard input");
  verb.add_option("--system", arguments.system,
                  "Machine of the measurements: a preset (dgx-h100) or a scenario's file");
  verb.add_option("--set", arguments.overrides,
                  "Override a field of the machine: a.b=value; repeatable")
      ->allow_extra_args(false);
  verb.add_option("--ranks", arguments.layout.ranks,
                  "Number of GPUs, if the output does not name them")
      ->check(CLI::Range(2, 16384));
  verb.add_option("--nodes", arguments.layout.nodes,
                  "Number of nodes, if the output does not name them")
      ->check(CLI::Range(1, 16384));
  verb.add_option(
      "--op", arguments.layout.operation,
      "Operation, if the output does not name it: " + one_of_list(tested_operation_names()));
  verb.add_option("--fit", arguments.fit, "What to fit: both, bandwidth or latency")
      ->check(CLI::IsMember({"both", "bandwidth", "latency"}));
  verb.add_option("--column", arguments.columns,
                  "With kernels, where a table has another name for a column: batch=groups; "
                  "repeatable")
      ->allow_extra_args(false);
  verb.add_option("--value", arguments.values,
                  "With kernels, what a table does not say: dtype=bf16; repeatable")
      ->allow_extra_args(false);
  verb.add_option("--where", arguments.where,
                  "With kernels, rows that count: a column and its cell, gpu=B200; repeatable")
      ->allow_extra_args(false);
  verb.add_option("--out", arguments.out, "Write what is fitted, as JSON with comments");
  verb.add_flag("-q,--quiet", arguments.quiet, "Print nothing unless something is wrong");
}

void refuse_kernel_options(const CalibrateArguments& arguments) {
  const char* const given = !arguments.columns.empty()  ? "--column"
                            : !arguments.values.empty() ? "--value"
                            : !arguments.where.empty()  ? "--where"
                                                        : nullptr;
  if (given == nullptr) return;
  throw UsageError("E0940", fmt::format("{} is for tables of kernels", given),
                   "write the word kernels before the files, or leave it out");
}

// `shardsim calibrate FILE...`: fits system.nccl to measurements of nccl-tests. It prints the
// system's error with and without the fit, and writes the fit with all else that system.nccl has.
// Returns 0. Throws Error: E0940 to E0951, and E0901 for a file that cannot be written.
int command_calibrate(const CalibrateArguments& arguments, const Console& console) {
  if (!arguments.files.empty() && arguments.files.front() == kKernelsWord) {
    return calibrate_kernels(arguments, console);
  }
  refuse_kernel_options(arguments);
  if (arguments.files.empty()) {
    throw UsageError(
        "E0940", "no output of nccl-tests is given",
        "name the files, or - for standard input, as in: all_reduce_perf -b 8 -e 8G -f "
        "2 -g 8 | shardsim calibrate -");
  }
  const Scenario given = scenario_of_system(arguments.system, arguments.overrides);
  check_calibrate_paths(arguments, given.files);
  std::vector<PricedTable> tables;
  for (const std::string& path : arguments.files) {
    for (NcclTestsTable& table : read_nccl_tests(path, console.in)) {
      tables.push_back(priced(arguments, std::move(table)));
    }
  }
  const Cluster cluster = cluster_of_table(arguments, tables.front().layout);
  const NcclOverrides& overrides = cluster.nccl->overrides;
  const FittedParts parts = parts_of(arguments.fit);
  const std::vector<TierCalibration> tiers =
      calibrate(tables, parts,
                {.inside = given_of(overrides.inside), .between = given_of(overrides.between)});
  const CalibrationReport report{.cluster = cluster,
                                 .given = given.system.network,
                                 .sources = given.sources,
                                 .tables = tables,
                                 .tiers = tiers,
                                 .parts = parts,
                                 .out = arguments.out};
  tell_fit(arguments, calibration_text(report), overlay_text(report), console);
  return 0;
}

}  // namespace

void check_calibrate_paths(const CalibrateArguments& arguments,
                           const std::vector<FileRead>& given) {
  if (arguments.out.empty()) return;
  std::vector<PathInUse> read =
      paths_read(given, names_a_file(arguments.system) ? arguments.system : "");
  for (const std::string& path : arguments.files) {
    if (path == kKernelsWord) continue;
    read.push_back({"a table that is read", path == "-" ? "/dev/stdin" : path});
  }
  require_outputs(read, {{"--out", arguments.out}});
}

void tell_fit(const CalibrateArguments& arguments, const std::string& report,
              const std::string& overlay, const Console& console) {
  if (!arguments.quiet) console.out << report;
  if (arguments.out.empty()) return;
  write_whole_file(arguments.out, [&overlay](std::ostream& file) { file << overlay; });
  if (!arguments.quiet) tell_written(arguments.out, console.err);
}

Verb calibrate_verb() {
  return with_arguments<CalibrateArguments>(
      {.name = "calibrate",
       .summary = "Fit prices to measurements: NCCL's, or those of kernels",
       .group = VerbGroup::measure,
       .examples = {{"shardsim calibrate one-node.txt two-nodes.txt --system dgx-h100",
                     "prices of the machine that printed these tables"},
                    {"shardsim calibrate kernels products.csv trace.json --system dgx-b200",
                     "constants of its kernels"}}},
      add_calibrate_options, command_calibrate);
}

}  // namespace shardsim

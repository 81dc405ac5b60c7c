#include "sim/collective/collective_table.hpp"

#include <fmt/format.h>

#include "scenarios/source_text.hpp"

namespace shardsim {

namespace {

// nccl-tests' three ranges.
std::string time_text(double seconds) {
  const double microseconds = seconds * 1e6;
  if (microseconds >= 10000.0) return fmt::format("{:7.0f}", microseconds);
  if (microseconds >= 100.0) return fmt::format("{:7.1f}", microseconds);
  return fmt::format("{:7.2f}", microseconds);
}

std::string place_text(const CollectiveSetting& setting, const TestedSize& row,
                       const TrialResult::Place& place) {
  if (!place.seconds)
    return fmt::format("  {:>7}  {:>6}  {:>6}  {:>5}", "N/A", "N/A", "N/A", "N/A");
  const Bandwidths bandwidths = bandwidths_of(setting, row, *place.seconds);
  return fmt::format("  {}  {:6.2f}  {:6.2f}  {:>5}", time_text(*place.seconds),
                     bandwidths.algorithm, bandwidths.bus,
                     place.wrong ? std::to_string(*place.wrong) : "N/A");
}

std::string header_text(const CollectiveSetting& setting, const std::string& backend,
                        bool measured) {
  const Cluster& cluster = setting.cluster;
  std::string text = fmt::format(
      "# shardsim collective {} on {}: {} ranks\n"
      "# {} warmup iters: {} iters: {} validation: {}\n"
      "# {} {}: {} nodes of {} GPUs\n#\n",
      name_of(setting.operation), backend, setting.ranks(), setting.sizes_text, setting.warmup,
      setting.iterations, setting.checks,
      measured ? "simulated time: of" : "times are simulated, of", printable(setting.system, 200),
      cluster.num_nodes, cluster.gpus_per_node);
  text += fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:^30}  {:^30}{}\n", "", "", "", "",
                      "", "out-of-place", "in-place", measured ? "  simulated" : "");
  const auto line = [&](const char* size, const char* count, const char* type, const char* redop,
                        const char* root, const char* time, const char* algorithm, const char* bus,
                        const char* wrong, const char* sent) {
    std::string line =
        fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", size, count, type, redop, root);
    for (int place = 0; place < 2; ++place) {
      line += fmt::format("  {:>7}  {:>6}  {:>6} {:>6}", time, algorithm, bus, wrong);
    }
    if (measured) line += fmt::format("  {:>9}", time);
    return line + fmt::format("  {:>14}\n", sent);
  };
  return text +
         line("size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong",
              "sent") +
         line("(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(B)");
}

std::string wire_text(const CollectiveRun& run) {
  std::string text = fmt::format("# Bytes of all calls   : {} by own count, ", run.sent_bytes);
  if (!run.wire) return text + "the library does not count\n";
  text += fmt::format("{} on the wire in {} messages, difference {}", run.wire->bytes,
                      run.wire->messages, run.wire->bytes - run.sent_bytes);
  return text + (run.wire_is_exact ? (wire_agrees(run) ? " OK\n" : " FAILED\n") : "\n");
}

std::string measured_footer(const std::string& backend, const CollectiveRun& run) {
  std::string text = wire_text(run);
  text += fmt::format(
      "# Measured with        : {}; average over iterations and ranks, by the wall clock\n"
      "# The simulated time is another machine's: that of the system named above.\n",
      run.library);
  if (backend == "nccl") {
    text += "# Buffers are on the host: measured times include the copies to the GPU and back.\n";
  }
  for (const std::string& note : run.notes) text += "# " + note + "\n";
  if (run.times_mean_nothing) {
    text += "# TIMES MEAN NOTHING HERE: ranks share a GPU or cores. Values and bytes do.\n";
  }
  return text;
}

}  // namespace

Bandwidths bandwidths_of(const CollectiveSetting& setting, const TestedSize& row, double seconds) {
  if (seconds <= 0.0) return {};
  const double algorithm = static_cast<double>(row.size) / 1e9 / seconds;
  return {algorithm, algorithm * bus_factor(setting.operation, setting.ranks())};
}

double average_bus_bandwidth(const CollectiveSetting& setting, const CollectiveRun& run) {
  double sum = 0.0;
  int num_timed = 0;
  for (const TestedSize& row : run.rows) {
    for (const TrialResult::Place& place : row.found.places) {
      if (!place.seconds) continue;
      sum += bandwidths_of(setting, row, *place.seconds).bus;
      ++num_timed;
    }
  }
  return num_timed == 0 ? 0.0 : sum / num_timed;
}

std::int64_t wrong_elements(const CollectiveRun& run) {
  std::int64_t wrong = 0;
  for (const TestedSize& row : run.rows) {
    for (const TrialResult::Place& place : row.found.places) wrong += place.wrong.value_or(0);
  }
  return wrong;
}

bool wire_agrees(const CollectiveRun& run) {
  return !run.wire || !run.wire_is_exact || run.wire->bytes == run.sent_bytes;
}

std::string collective_table(const CollectiveSetting& setting, const std::string& backend,
                             const CollectiveRun& run) {
  const bool measured = backend != "fiber";
  std::string text = header_text(setting, backend, measured);
  for (const TestedSize& row : run.rows) {
    text += fmt::format("{:12}  {:12}  {:>8}  {:>6}  {:6}", row.size, row.count, setting.dtype_name,
                        setting.reduction_name, setting.root);
    for (const TrialResult::Place& place : row.found.places)
      text += place_text(setting, row, place);
    if (measured) text += fmt::format("  {:>9}", time_text(row.simulated_seconds.value_or(0.0)));
    text += fmt::format("  {:14}\n", row.found.sent_bytes);
  }
  const std::int64_t wrong = wrong_elements(run);
  text += setting.checks == 0 ? "# Out of bounds values : not checked\n"
                              : fmt::format("# Out of bounds values : {} {}\n", wrong,
                                            wrong == 0 ? "OK" : "FAILED");
  text += fmt::format("# Avg bus bandwidth    : {:g}\n#\n", average_bus_bandwidth(setting, run));
  return measured ? text + measured_footer(backend, run) : text;
}

}  // namespace shardsim

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "sim/real/measure_rank.hpp"
#include "sim/run/metrics.hpp"

namespace shardsim {

namespace {

using Reports = std::vector<MeasuredRank>;

constexpr std::array<const char*, StateImage::kNumKinds> kErrorNames = {"grads", "params",
                                                                        "optimizer_state", "loss"};

// Adds measured figures, each with its difference from the simulation.
class Figures {
 public:
  Figures(Result& result, std::int64_t steps) : result_(result), steps_(steps) {}

  void add(const std::string& name, const MetricValue& value) {
    result_.measured.push_back({name, value});
  }
  /// Sums over the run, given per step as all traffic is.
  void compare_per_step(const std::string& name, std::int64_t measured, std::int64_t simulated) {
    add(name, per_step(measured));
    add("difference." + name, per_step(measured - simulated));
  }
  void compare(const std::string& name, std::int64_t measured, std::int64_t simulated) {
    add(name, measured);
    add("difference." + name, measured - simulated);
  }

 private:
  // A mean if steps were skipped.
  [[nodiscard]] MetricValue per_step(std::int64_t total) const {
    if (total % steps_ == 0) return total / steps_;
    return static_cast<double>(total) / static_cast<double>(steps_);
  }

  Result& result_;
  std::int64_t steps_;
};

using OfCounters = std::function<std::int64_t(const TrafficCounters&)>;

struct Pair {
  std::int64_t measured = 0;
  std::int64_t simulated = 0;
};

Pair sum_of(const Reports& reports, const std::string& axis, const OfCounters& figure) {
  Pair sum;
  for (const MeasuredRank& report : reports) {
    for (const GroupReport& group : report.groups) {
      if (!axis.empty() && axis_of(group.name) != axis) continue;
      sum.measured += figure(group.measured);
      sum.simulated += figure(group.simulated);
    }
  }
  return sum;
}

std::int64_t payload(const TrafficCounters& counters) { return counters.payload_sent; }
std::int64_t all_sent(const TrafficCounters& counters) {
  return counters.payload_sent + counters.padding_sent + counters.scalar_sent;
}

void add_traffic(Figures& figures, const Reports& reports) {
  const auto add = [&](const MetricRow& row, const std::string& axis, const OfCounters& figure) {
    const Pair sum = sum_of(reports, axis, figure);
    figures.compare_per_step(row.name, sum.measured, sum.simulated);
  };
  add(metric::kCommBytesSentTotal, "", payload);
  for (const auto& [axis, row] : kAxisMetrics) {
    add(row, axis, payload);
  }
  add(metric::kCommBytesSentPadding, "", [](const auto& each) { return each.padding_sent; });
  add(metric::kCommBytesSentScalars, "", [](const auto& each) { return each.scalar_sent; });
  add(metric::kCommMessagesTotal, "", [](const auto& each) { return each.messages; });
  // Counted once per member, as in the simulation.
  add(metric::kCommCallsTotal, "", [](const auto& each) { return each.calls; });
}

void add_by_operation(Figures& figures, const Reports& reports) {
  std::map<std::string, Pair> sums;
  for (const MeasuredRank& report : reports) {
    for (const GroupReport& group : report.groups) {
      const std::string axis = std::string(axis_of(group.name)) + ".";
      for (const auto& [operation, bytes] : group.measured_by_operation) {
        sums[axis + operation].measured += bytes;
      }
      for (const auto& [operation, bytes] : group.simulated_by_operation) {
        sums[axis + operation].simulated += bytes;
      }
    }
  }
  for (const auto& [name, sum] : sums) {
    figures.compare_per_step("comm.bytes_sent.by_axis_and_operation." + name, sum.measured,
                             sum.simulated);
  }
}

void add_memory(Figures& figures, const Reports& reports) {
  Pair peak;
  Pair host;
  for (const MeasuredRank& report : reports) {
    peak.measured = std::max(peak.measured, report.peak_bytes);
    peak.simulated = std::max(peak.simulated, report.simulated_peak_bytes);
    host.measured = std::max(host.measured, report.host_peak_bytes);
    host.simulated = std::max(host.simulated, report.simulated_host_peak_bytes);
  }
  figures.compare(metric::kMemoryPeakBytesMax.name, peak.measured, peak.simulated);
  if (host.simulated > 0)
    figures.compare(metric::kMemoryHostBytesMax.name, host.measured, host.simulated);
}

void add_values(Figures& figures, const Reports& reports) {
  std::int64_t compared = 0;
  std::int64_t different = 0;
  std::array<double, StateImage::kNumKinds> errors{};
  for (const MeasuredRank& report : reports) {
    compared += report.values.num_values;
    different += report.values.num_different;
    for (std::size_t i = 0; i < errors.size(); ++i) {
      errors.at(i) = std::max(errors.at(i), report.values.max_rel_error.at(i));
    }
  }
  figures.add("values.compared", compared);
  figures.add("values.different_bits", different);
  for (std::size_t i = 0; i < errors.size(); ++i) {
    figures.add(fmt::format("values.max_rel_error.{}", kErrorNames.at(i)), errors.at(i));
  }
}

// The allowed error against the simulation if sums are formed in another order. At fp64 it is that
// of any layout against one device. At other precisions it is 4 times the simulation's own error by
// another order, which is the oracle's margin for rounding (decision 0012).
std::array<double, StateImage::kNumKinds> bounds_of(const Reports& reports,
                                                    const Experiment& experiment) {
  std::array<double, StateImage::kNumKinds> bounds{};
  for (std::size_t kind = 0; kind < bounds.size(); ++kind) {
    for (const MeasuredRank& report : reports) {
      bounds.at(kind) = std::max(bounds.at(kind), 4.0 * report.order_error.at(kind));
    }
    if (experiment.options().model.dtype == DType::fp64) bounds.at(kind) = 1e-9;
  }
  return bounds;
}

std::string difference_of(const MeasuredRank& report) {
  return fmt::format("rank {}: {} of {} values differ from the simulation; {}", report.rank,
                     report.values.num_different, report.values.num_values, report.values.first);
}

Check same_bits_check(const Reports& reports, const std::string& name) {
  std::int64_t compared = 0;
  for (const MeasuredRank& report : reports) {
    compared += report.values.num_values;
    if (report.values.num_different > 0) return {name, false, difference_of(report)};
  }
  return {name, compared > 0,
          fmt::format("{} values on {} ranks equal the simulation's in every bit", compared,
                      reports.size())};
}

Check close_values_check(const Reports& reports, const Experiment& experiment,
                         const std::string& name) {
  const auto bounds = bounds_of(reports, experiment);
  std::string how;
  for (std::size_t kind = 0; kind < bounds.size(); ++kind) {
    double worst = 0.0;
    for (const MeasuredRank& report : reports) {
      const double error = report.values.max_rel_error.at(kind);
      worst = std::max(worst, error);
      if (error <= bounds.at(kind) && std::isfinite(bounds.at(kind))) continue;
      return {name, false,
              fmt::format("{}: error {:.2e}, bound {:.2e}; {}", kErrorNames.at(kind), error,
                          bounds.at(kind), difference_of(report))};
    }
    how += fmt::format("{}{} {:.2e} of {:.2e}", how.empty() ? "" : ", ", kErrorNames.at(kind),
                       worst, bounds.at(kind));
  }
  return {name, true, "largest errors against the simulation, and bounds: " + how};
}

Check values_check(const Reports& reports, const Experiment& experiment, const MeasuredRun& run) {
  const std::string name = run.backend + ".values";
  return run.same_order ? same_bits_check(reports, name)
                        : close_values_check(reports, experiment, name);
}

// "3/1/9af..." for step 3, kind 1.
std::string_view step_and_kind(std::string_view hash) { return hash.substr(0, hash.rfind('/')); }

// A rank that joins or leaves has hashes of its steps only. Each is compared with the first rank of
// its replicas that has a hash of the same step and kind.
Check replicas_check(const Reports& reports, const MeasuredRun& run) {
  struct First {
    int rank = 0;
    std::string hash;
  };
  const std::string name = run.backend + ".replicas";
  std::map<std::pair<std::string, std::string>, First> first;
  std::set<std::string> groups;
  std::size_t num_hashes = 0;
  for (const MeasuredRank& report : reports) {
    if (std::ssize(report.hashes) != report.num_expected_hashes) {
      return {name, false,
              fmt::format("rank {} has {} hashes of what it holds, {} in the simulation",
                          report.rank, report.hashes.size(), report.num_expected_hashes)};
    }
    for (const std::string& hash : report.hashes) {
      const std::pair key(report.replica_group, std::string(step_and_kind(hash)));
      const auto [it, is_new] = first.try_emplace(key, First{report.rank, hash});
      if (it->second.hash == hash) continue;
      return {name, false,
              fmt::format("ranks {} and {} are replicas of {} and hold different values",
                          it->second.rank, report.rank, report.replica_group)};
    }
    groups.insert(report.replica_group);
    num_hashes += report.hashes.size();
  }
  return {name, num_hashes > 0,
          fmt::format("{} hashes of {} ranks agree in {} groups of replicas", num_hashes,
                      reports.size(), groups.size())};
}

// Counters that must be equal. Payload and padding are added up: an all_reduce may divide them
// otherwise.
std::string counter_difference(const GroupReport& group) {
  const std::array<std::tuple<const char*, std::int64_t, std::int64_t>, 4> rows = {
      {{"bytes", all_sent(group.measured), all_sent(group.simulated)},
       {"bytes of scalars", group.measured.scalar_sent, group.simulated.scalar_sent},
       {"messages", group.measured.messages, group.simulated.messages},
       {"calls", group.measured.calls + group.measured.scalar_calls,
        group.simulated.calls + group.simulated.scalar_calls}}};
  for (const auto& [what, measured, simulated] : rows) {
    if (measured != simulated) {
      return fmt::format("group {}: {} {}, simulated {}", group.name, measured, what, simulated);
    }
  }
  return "";
}

Check bytes_check(const Reports& reports, const MeasuredRun& run) {
  std::int64_t bytes = 0;
  std::int64_t links = 0;
  for (const MeasuredRank& report : reports) {
    std::string difference = report.first_link_difference;
    for (const GroupReport& group : report.groups) {
      bytes += all_sent(group.measured);
      if (difference.empty()) difference = counter_difference(group);
    }
    links += report.num_links;
    if (difference.empty()) continue;
    return {run.backend + ".bytes", false, fmt::format("rank {}, {}", report.rank, difference)};
  }
  return {run.backend + ".bytes", true,
          fmt::format("{} bytes sent, as simulated, by rank, group and {} ends of links", bytes,
                      links)};
}

Check memory_check(const Reports& reports, const MeasuredRun& run) {
  for (const MeasuredRank& report : reports) {
    if (report.peak_bytes == report.simulated_peak_bytes &&
        report.host_peak_bytes == report.simulated_host_peak_bytes) {
      continue;
    }
    return {run.backend + ".memory", false,
            fmt::format("rank {}: tensors take {} bytes at their peak, {} in the simulation (in "
                        "the host's memory {} and {})",
                        report.rank, report.peak_bytes, report.simulated_peak_bytes,
                        report.host_peak_bytes, report.simulated_host_peak_bytes)};
  }
  return {run.backend + ".memory", true, "peaks of all ranks are the simulation's"};
}

// Compares the library's own count with the simulation.
void add_wire(Result& result, Figures& figures, const Reports& reports, const MeasuredRun& run) {
  SentTotals wire;
  Pair messages;
  std::string difference;
  const auto num_counted =
      std::ranges::count_if(reports, [](const auto& report) { return report.wire.has_value(); });
  if (num_counted == 0) {
    result.warnings.push_back(run.why_no_wire);
    return;
  }
  for (const MeasuredRank& report : reports) {
    if (!report.wire) {
      difference = fmt::format("rank {} counted nothing where others did", report.rank);
      continue;
    }
    wire.bytes += report.wire->bytes;
    wire.messages += report.wire->messages;
    SentTotals simulated;
    for (const GroupReport& group : report.groups) {
      simulated.bytes += all_sent(group.simulated);
      simulated.messages += group.simulated.messages;
    }
    messages.simulated += simulated.messages;
    if (difference.empty() && !(simulated == *report.wire)) {
      difference = fmt::format("rank {}: {} bytes in {} messages, simulated {} in {}", report.rank,
                               report.wire->bytes, report.wire->messages, simulated.bytes,
                               simulated.messages);
    }
  }
  const Pair bytes = sum_of(reports, "", all_sent);
  figures.compare_per_step("wire.bytes_sent.total", wire.bytes, bytes.simulated);
  figures.compare_per_step("wire.messages.total", wire.messages, messages.simulated);
  result.checks.push_back({run.backend + ".wire", difference.empty(),
                           difference.empty()
                               ? fmt::format("{} counts {} bytes in {} messages, as simulated",
                                             run.library, wire.bytes, wire.messages)
                               : difference});
}

}  // namespace

void add_measured(Result& result, const Experiment& experiment, const MeasuredRun& run,
                  const std::vector<MeasuredRank>& reports) {
  Figures figures(result, experiment.options().training.steps);
  figures.add("backend", run.backend);
  figures.add("library", run.library);
  figures.add("processes", static_cast<std::int64_t>(reports.size()));
  add_traffic(figures, reports);
  add_by_operation(figures, reports);
  add_memory(figures, reports);
  add_values(figures, reports);
  result.checks.push_back(values_check(reports, experiment, run));
  result.checks.push_back(replicas_check(reports, run));
  // Libraries with their own algorithms send other bytes than our count of the calls gives.
  if (run.same_order) result.checks.push_back(bytes_check(reports, run));
  result.checks.push_back(memory_check(reports, run));
  add_wire(result, figures, reports, run);
  for (const std::string& note : run.notes) result.warnings.push_back(note);
  if (run.loopback_bytes) {
    const std::int64_t sent = sum_of(reports, "", all_sent).simulated;
    figures.compare("loopback.bytes_received.total", *run.loopback_bytes, sent);
  }
}

}  // namespace shardsim

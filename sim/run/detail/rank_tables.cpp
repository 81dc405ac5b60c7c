#include "sim/run/detail/rank_tables.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "sim/run/metrics.hpp"

namespace shardsim {

namespace {

// Metrics hold whole bytes, or a mean if steps differ.
std::int64_t whole_bytes(const Result& result, const MetricRow& row) {
  const MetricValue* value = result.find(row);
  if (value == nullptr) return 0;
  if (const auto* bytes = std::get_if<std::int64_t>(value)) return *bytes;
  const auto* mean = std::get_if<double>(value);
  return mean == nullptr ? 0 : std::llround(*mean);
}

}  // namespace

std::vector<AxisComm> axis_table(const RankRecorder& recorder, const RunRecord& record,
                                 const Result& result) {
  std::map<std::string_view, RankRecorder::CommTime> by_axis;
  for (const auto& [communicator, time] : recorder.comm()) {
    RankRecorder::CommTime& axis = by_axis[axis_of(communicator)];
    axis.exposed += time.exposed;
    axis.busy += time.busy;
  }
  const RankMoment& begin = record.last_step_begin(recorder.rank());
  const RankMoment& end = record.last_step_end(recorder.rank());
  Time exposed_left = end.split.exposed_comm - begin.split.exposed_comm;
  Time hidden_left = max(end.comm_busy - begin.comm_busy - exposed_left, Time());
  std::vector<AxisComm> axes;
  for (const auto& [axis, row] : kAxisMetrics) {
    const RankRecorder::CommTime time = by_axis[axis];
    const Time hidden = time.busy - time.exposed;
    exposed_left -= time.exposed;
    hidden_left -= hidden;
    const std::int64_t bytes = whole_bytes(result, row);
    if (bytes == 0 && time.busy == Time()) continue;
    axes.push_back({axis, time.exposed.seconds(), hidden.seconds(), bytes});
  }
  // The rest is the forming of groups, within a step in which members change.
  if (exposed_left != Time() || hidden_left != Time()) {
    axes.push_back({"other", exposed_left.seconds(), hidden_left.seconds(), 0});
  }
  return axes;
}

Roofline roofline_of(const RankRecorder& recorder, const Experiment& experiment) {
  const Device& device = experiment.cluster().device;
  Roofline roofline;
  roofline.peak_flops_per_s = device.peak(experiment.options().model.dtype);
  roofline.memory_bytes_per_s = device.memory_bytes_per_s;
  Time copies;
  for (const auto& [name, sum] : recorder.operations()) {
    if (sum.on_host_link) {
      copies += sum.time;
      continue;
    }
    roofline.points.push_back(
        {std::string(name), sum.flops, sum.bytes, sum.time.seconds(), sum.calls});
  }
  roofline.host_copies_s = copies.seconds();
  roofline.beside_comm_s = recorder.slowed().seconds();
  std::stable_sort(roofline.points.begin(), roofline.points.end(),
                   [](const auto& a, const auto& b) { return a.time_s > b.time_s; });
  return roofline;
}

}  // namespace shardsim

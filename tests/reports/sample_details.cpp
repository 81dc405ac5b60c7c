#include "tests/reports/sample_details.hpp"

#include <algorithm>
#include <cstddef>

#include "tests/reports/sample_schedule.hpp"

namespace shardsim::samples {

namespace {

constexpr std::int64_t kPageGiB = std::int64_t{1} << 30;
constexpr double kStep = 2.5;  // As samples::plan() has it.

void add_stages(RunDetail& detail, const PageShape& shape) {
  const double bubble = 0.125;
  for (std::int64_t stage = 0; stage < shape.stages; ++stage) {
    // Earlier stages hold more microbatches, so more activations.
    const std::int64_t activations =
        8 * kPageGiB * (shape.stages - stage) / shape.stages + 8 * kPageGiB;
    const MemoryUse at_peak = {9 * kPageGiB, 5 * kPageGiB, 14 * kPageGiB, activations,
                               kPageGiB / 2};
    std::int64_t peak = 0;
    for (const std::int64_t bytes : at_peak) peak += bytes;
    const double exposed = 0.3125 + 0.03125 * static_cast<double>(stage % 3);
    detail.stages.push_back({stage, static_cast<int>(stage * (shape.ranks / shape.stages)),
                             kStep - exposed - bubble, exposed, bubble, 0, peak, at_peak});
  }
}

void add_memory(RunDetail& detail, const PageShape& shape) {
  for (const StageTime& stage : detail.stages) {
    MemoryCurve curve{stage.stage, stage.rank, {}};
    for (std::int64_t i = 0; i < shape.memory_points; ++i) {
      const double at = static_cast<double>(i) / static_cast<double>(shape.memory_points - 1);
      // Up in the first quarter, a saw in the middle, down in the last.
      const double fill = std::min({4 * at, 4 * (1 - at), 1.0});
      const std::int64_t held = static_cast<std::int64_t>(fill * 16) - i % 2;
      MemoryUse bytes = stage.at_peak;
      bytes[3] = std::max<std::int64_t>(held, 0) * (stage.at_peak[3] / 16);
      bytes[1] = at < 0.25 ? 0 : stage.at_peak[1];
      bytes[4] = i % 5 == 0 ? stage.at_peak[4] : 0;
      curve.points.push_back({at * kStep, bytes});
    }
    detail.memory.push_back(curve);
  }
}

// Neighbours exchange most (tp), stages pass activations on (pp), replicas reduce (dp).
void add_traffic(RunDetail& detail, const PageShape& shape) {
  const auto cells = static_cast<std::size_t>(shape.cells);
  const std::size_t node = 8;
  const std::size_t stage = cells / static_cast<std::size_t>(shape.stages);
  TrafficMatrix& traffic = detail.traffic;
  traffic.ranks_per_cell = shape.ranks / shape.cells;
  traffic.cells = cells;
  traffic.bytes.assign(cells * cells, 0);
  for (std::size_t from = 0; from < cells; ++from) {
    for (std::size_t to = 0; to < cells; ++to) {
      std::int64_t& bytes = traffic.bytes[from * cells + to];
      if (from != to && from / node == to / node)
        bytes += 24'000'000'000 + 1'000'000 * static_cast<std::int64_t>(from);
      if (to == from + stage || from == to + stage) bytes += 900'000'000;
      if (from != to && from / stage == to / stage && from % node == to % node)
        bytes += 3'500'000'000;
    }
  }
}

void add_roofline(RunDetail& detail) {
  detail.roofline.peak_flops_per_s = 989.4e12;
  detail.roofline.memory_bytes_per_s = 3.35e12;
  detail.roofline.points = {
      {"matmul", 1.1e15, 2.4e12, 1.5, 5120},    {"attention", 1.2e14, 2.0e11, 0.25, 640},
      {"rms_norm", 4.0e11, 3.2e11, 0.11, 1280}, {"swiglu", 3.0e11, 2.6e11, 0.09, 640},
      {"rope", 1.0e11, 1.1e11, 0.05, 640},      {"cross_entropy", 2.0e11, 1.4e11, 0.05, 16},
      {"adamw", 1.2e11, 1.0e11, 0.0325, 12},    {"copy", 0.0, 6.0e9, 0.002, 64}};
}

}  // namespace

Page pipeline_page(const PageShape& shape) {
  Page page{plan(), {}};
  TextHeadline& headline = page.sample.headline;
  headline.name = "llama3-70b with tensor, pipeline and data parallelism";
  headline.model = "llama3-70b";
  headline.layout = "tp 8, pp " + std::to_string(shape.stages) + ", zero 1";
  headline.ranks = shape.ranks;
  for (Metric& metric : page.sample.result.metrics) {
    if (metric.name == "ranks") metric.value = shape.ranks;
  }
  RunDetail& detail = page.detail;
  add_stages(detail, shape);
  detail.axes = {{"tp", 0.21875, 0.0625, 2'100'000'000'000},
                 {"pp", 0.03125, 0.09375, 90'000'000'000},
                 {"dp", 0.0625, 0.375, 840'000'000'000}};
  add_memory(detail, shape);
  detail.schedule = one_forward_one_backward(shape.stages, shape.microbatches, shape.comm_bars,
                                             shape.ranks / shape.stages, kStep);
  add_traffic(detail, shape);
  detail.traffic_by_axis = {{"dp", 230'000'000'000, 610'000'000'000},
                            {"tp", 2'100'000'000'000, 0},
                            {"pp", 0, 90'000'000'000}};
  detail.links = {{"inside node", 2'300'000'000'000, 450, 0.1875, "rank 0"},
                  {"between nodes", 730'000'000'000, 50, 0.40625, "node 2"}};
  add_roofline(detail);
  detail.cost = {.tokens_total = 1e12,
                 .days = 27.59,
                 .gpu_hours = 42'378,
                 .usd_per_gpu_hour = 2.5,
                 .usd = 105'945};
  detail.notes = {"Bars shorter than a microsecond are not shown: 12 of 1,204."};
  return page;
}

Page small_page() { return pipeline_page({}); }

Page large_page() {
  // 8 stages x 64 microbatches x forward and backward = 1,024; the rest is communication.
  return pipeline_page({.stages = 8,
                        .microbatches = 64,
                        .ranks = 1024,
                        .cells = 128,
                        .memory_points = 2000,
                        .comm_bars = (20'000 - 8 * 2 * 64 - 8) / 8});
}

Page hostile_page() {
  Page page = small_page();
  const std::string name = kHostile;
  page.sample.headline = {name, name, name, name, name, name, 64, 80e9};
  Result& result = page.sample.result;
  result.scenario_json = R"({"name": "</script><img src=x onerror=alert(1)>"})";
  result.checks = {{name, false, name}, {name, true, name}};
  result.expectations = {{name, "<=", 1, 2, false}, {name, ">=", 1, 2, true}};
  result.assumptions = {{name, name}};
  result.warnings = {name};
  result.metrics.push_back({name, name});
  for (MetricBand& band : result.error_bands) band.device = band.software = name;
  Diagnosis diagnosis;
  diagnosis.code = "DEADLOCK";
  diagnosis.summary = name;
  diagnosis.hint = name;
  result.diagnosis = diagnosis;
  RunDetail& detail = page.detail;
  for (AxisComm& axis : detail.axes) axis.axis = name;
  for (std::string& each : detail.schedule.names) each = name;
  for (GanttRow& row : detail.schedule.rows) row.track = name;
  for (AxisTraffic& axis : detail.traffic_by_axis) axis.axis = name;
  for (LinkUse& link : detail.links) link.tier = name;
  for (RooflinePoint& point : detail.roofline.points) point.name = name;
  detail.notes = {name};
  return page;
}

Page sensitive_page() {
  Page page = small_page();
  const char* const quantities[] = {"computing", "memory bandwidth", "links inside a node",
                                    "links between nodes", "batch"};
  for (std::size_t i = 0; i < std::size(quantities); ++i) {
    for (const double by : {-0.1, 0.1}) {
      const double change = -by * 0.8 / static_cast<double>(1 + i * i);
      page.detail.sensitivity.push_back(
          {quantities[i],
           by,
           "1,090 TFLOP/s in bf16",
           {"system.device.peak_tflops.bf16=1088.34", "system.device.peak_tflops.fp8=2177.1"},
           kStep * (1 + change),
           412'345 / (1 + change),
           change,
           i == 3 ? "a stricter limit always applies" : ""});
    }
  }
  return page;
}

Page bare_page() { return {verified(), {}}; }

}  // namespace shardsim::samples

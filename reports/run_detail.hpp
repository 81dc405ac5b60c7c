#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/kernel/memory_ledger.hpp"

// The data of pages and tables about a run beyond its metrics: plain numbers. The code of
// sim/run/detail fills them when a report is asked for, and the writers here read them. Times are
// in seconds of virtual time of the last step, from the moment when the first rank begins it. Sizes
// are in bytes. A metric of the same quantity has the same number.
namespace shardsim {

/// One pipeline rank; without a pipeline, all ranks. It shows the rank whose last step ends last,
/// the lowest of equals. The parts sum to the step of that rank.
struct StageTime {
  std::int64_t stage = 0;  ///< Coordinate on the axis pp.
  int rank = 0;
  double compute_s = 0;
  double exposed_comm_s = 0;
  double bubble_s = 0;
  double host_s = 0;
  std::int64_t peak_bytes = 0;  ///< Peak of the fullest rank of this stage.
  std::array<std::int64_t, kNumMemoryCategories> at_peak{};
};

/// Communication of one axis ("dp", "tp", "cp", "ep", "pp"; "other": forming groups within the
/// step). Times are those of the rank that ends last; bytes are those of all ranks.
struct AxisComm {
  std::string axis;
  double exposed_s = 0;         ///< Over all axes these sum to time.exposed_comm_s,
  double hidden_s = 0;          ///< and these to time.hidden_comm_s.
  std::int64_t bytes_sent = 0;  ///< As comm.bytes_sent.by_axis; rounded where that is a mean.
};

/// Bytes in use on one rank, by category, from a moment on until the next.
struct MemoryCurve {
  std::int64_t stage = 0;
  int rank = 0;
  struct Point {
    double time_s = 0;
    std::array<std::int64_t, kNumMemoryCategories> bytes{};
  };
  /// In order of time. An instant may have two points: first the most bytes in use, then those
  /// left. Thinned to at most kMaxMemoryPoints; the peak of the run is always among them, before 0
  /// or after the step if it was reached there.
  std::vector<Point> points;
};
inline constexpr std::size_t kMaxMemoryPoints = 2000;

/// A bar of the schedule of one stage: work of its rank's compute stream, or of one of its
/// communicators.
struct GanttBar {
  std::uint32_t name = 0;        ///< Index into ScheduleChart::names.
  std::int64_t chunk = 0;        ///< Model chunk on this rank, where it has several.
  std::int64_t microbatch = -1;  ///< -1: of none.
  double begin_s = 0;            ///< Below 0: begun in the step before, and waited for in this one.
  double end_s = 0;
};
struct GanttRow {
  std::int64_t stage = 0;
  int rank = 0;
  std::string track;  ///< "compute", "dp_shard", "tp", "pp_forward", "pp_forward 2", ...
  std::vector<GanttBar> bars;
};
/// The last step as a Gantt chart: for each stage, the rank whose last step ends last. Bars without
/// a gap between them that do the same for one microbatch are one. Beyond kMaxGanttBars, neighbours
/// with little between them are one, too.
struct ScheduleChart {
  /// "forward", "backward", "input grad", "weight grad", "gradients" (before the first action
  /// and after the last: zeroed, reduced), "optimizer"; of communicators their operations,
  /// "all_gather"; "several".
  std::vector<std::string> names;
  std::vector<GanttRow> rows;  ///< By stage, "compute" first.
};
inline constexpr std::size_t kMaxGanttBars = 20000;

/// Payload bytes of one step, from row to column. Where there are more ranks than
/// kMaxTrafficCells, a cell is ranks_per_cell x ranks_per_cell of them, in order of rank.
struct TrafficMatrix {
  std::int64_t ranks_per_cell = 1;
  std::int64_t steps = 1;  ///< Steps of these bytes: more than one only if steps differ.
  std::size_t cells = 0;   ///< Rows, and columns.
  /// Row by row, cells x cells; sum / steps = comm.bytes_sent.total.
  std::vector<std::int64_t> bytes;
};
inline constexpr std::size_t kMaxTrafficCells = 128;

/// Payload bytes of one step on one axis, of all ranks, by the links that they cross. Rounded where
/// steps differ. Over all axes these sum to comm.bytes_sent.total.
struct AxisTraffic {
  std::string axis;  ///< As AxisComm has it.
  std::int64_t inside_node = 0;
  std::int64_t between_nodes = 0;
};

/// One tier of links: the bytes that all ranks sent over it, and the share of the step that its
/// busiest part needs at full bandwidth. That part is a rank inside a node. Between nodes it is a
/// node, as a ring uses the network cards of all its members there.
struct LinkUse {
  std::string tier;  ///< "inside node", "between nodes"
  std::int64_t bytes = 0;
  double bandwidth_gb_per_s = 0;  ///< Per GPU and direction, as in the scenario.
  double busiest_share = 0;       ///< Share of the step, [0, ...).
  std::string busiest;            ///< "rank 3", "node 0"
};

/// All operations of one name on the rank that ends last, against the device's roofline; without
/// copies over the host link.
struct RooflinePoint {
  std::string name;
  double flops = 0;
  double bytes = 0;  ///< Moved between the device's memory and its processors.
  double time_s = 0;
  std::int64_t calls = 0;
};
struct Roofline {
  double peak_flops_per_s = 0;  ///< At the precision of training.
  double memory_bytes_per_s = 0;
  std::vector<RooflinePoint> points;
  /// With these two the times of all points sum to time.compute_s. They are copies over the host
  /// link, which the figure omits, and the slowdown of computing beside communication.
  double host_copies_s = 0;
  double beside_comm_s = 0;
};

/// The cost of training at this step time; days, GPU hours and USD are the metrics cost.*. Zero
/// where the scenario does not give it.
struct CostEstimate {
  double tokens_total = 0;
  double days = 0;
  double gpu_hours = 0;
  double usd_per_gpu_hour = 0;
  double usd = 0;
};

/// The step with one quantity of the scenario changed: an ordinary run with these overrides.
struct SensitivityBar {
  std::string quantity;  ///< "computing", "memory bandwidth", "links inside a node", ...
  double by = 0;         ///< The change of the quantity: 0.1 is 10 % more.
  std::string setting;   ///< "1,090 TFLOP/s in bf16"
  std::vector<std::string> overrides;  ///< As --set takes them: "a.b=value".
  double step_s = 0;                   ///< 0: the run gave none; `note` says why.
  double tokens_per_s = 0;             ///< By all ranks together.
  double change = 0;                   ///< Time per token against the run itself: 0.08 is 8 % more.
  std::string note;                    ///< Such as "does not fit"; may be empty.
};

struct RunDetail {
  std::vector<StageTime> stages;
  std::vector<AxisComm> axes;
  std::vector<MemoryCurve> memory;
  ScheduleChart schedule;
  TrafficMatrix traffic;
  std::vector<AxisTraffic> traffic_by_axis;  ///< Those that send.
  std::vector<LinkUse> links;
  Roofline roofline;
  CostEstimate cost;
  std::vector<SensitivityBar> sensitivity;  ///< By quantity, less before more; empty: not asked.
  /// Notes on omitted or thinned data, in sentences for the page.
  std::vector<std::string> notes;
};

}  // namespace shardsim

#include "reports/csv_tables.hpp"

#include <algorithm>
#include <string_view>
#include <type_traits>

#include <fmt/format.h>

#include "sim/kernel/text.hpp"

namespace shardsim {

namespace {

bool is_formula(std::string_view text) {
  constexpr std::string_view kFirst = "=+-@\t\r\n";
  return !text.empty() && kFirst.find(text.front()) != std::string_view::npos &&
         !parse_number<double>(text);
}

// Writes one table, row by row.
class CsvRows {
 public:
  explicit CsvRows(std::initializer_list<const char*> names) {
    for (const char* name : names) cell(name);
    end_row();
  }

  template <class... Cells>
  void add(const Cells&... cells) {
    (cell(cells), ...);
    end_row();
  }

  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  using Categories = std::array<std::int64_t, kNumMemoryCategories>;

  template <class Cell>
  void cell(const Cell& value) {
    if (!is_first_) text_ += ',';
    is_first_ = false;
    if constexpr (std::is_convertible_v<Cell, std::string_view>) {
      text_ += csv_cell(value);
    } else {
      text_ += fmt::format("{}", value);
    }
  }
  void cell(const Categories& bytes) {
    for (const std::int64_t of_category : bytes) cell(of_category);
  }
  void end_row() {
    text_ += '\n';
    is_first_ = true;
  }

  std::string text_;
  bool is_first_ = true;
};

// A row for each of `items`: its `members`.
template <class Item, class... Members>
CsvTable members_table(const char* name, std::initializer_list<const char*> columns,
                       const std::vector<Item>& items, Members Item::*... members) {
  CsvRows rows(columns);
  for (const Item& item : items) rows.add(item.*members...);
  return {name, rows.take()};
}

// Pairs without traffic have no row.
CsvTable traffic_table(const RunDetail& detail) {
  const TrafficMatrix& matrix = detail.traffic;
  CsvRows rows({"from_rank", "to_rank", "ranks_per_cell", "steps", "bytes"});
  for (std::size_t i = 0; i < matrix.bytes.size(); ++i) {
    if (matrix.bytes[i] == 0) continue;
    const auto from = static_cast<std::int64_t>(i / matrix.cells);
    const auto to = static_cast<std::int64_t>(i % matrix.cells);
    rows.add(from * matrix.ranks_per_cell, to * matrix.ranks_per_cell, matrix.ranks_per_cell,
             matrix.steps, matrix.bytes[i]);
  }
  return {"traffic", rows.take()};
}

CsvTable memory_table(const RunDetail& detail) {
  CsvRows rows({"stage", "rank", "time_s", "params_bytes", "grads_bytes", "optimizer_bytes",
                "activations_bytes", "comm_bytes"});
  for (const MemoryCurve& curve : detail.memory) {
    for (const MemoryCurve::Point& point : curve.points) {
      rows.add(curve.stage, curve.rank, point.time_s, point.bytes);
    }
  }
  return {"memory", rows.take()};
}

CsvTable schedule_table(const RunDetail& detail) {
  CsvRows rows({"stage", "rank", "track", "name", "chunk", "microbatch", "begin_s", "end_s"});
  for (const GanttRow& row : detail.schedule.rows) {
    for (const GanttBar& bar : row.bars) {
      rows.add(row.stage, row.rank, row.track, detail.schedule.names.at(bar.name), bar.chunk,
               bar.microbatch, bar.begin_s, bar.end_s);
    }
  }
  return {"schedule", rows.take()};
}

}  // namespace

std::string csv_cell(std::string_view text) {
  const std::string plain = (is_formula(text) ? "'" : "") + std::string(text);
  if (plain.find_first_of(",\"\r\n") == std::string::npos) return plain;
  std::string quoted = "\"";
  for (const char letter : plain) {
    if (letter == '"') quoted += '"';
    quoted += letter;
  }
  return quoted + '"';
}

std::string exact_text(const MetricValue& value) {
  return std::visit([](const auto& v) { return fmt::format("{}", v); }, value);
}

std::vector<Metric> ordered_metrics(const Result& result) {
  const std::vector<std::string>& names = metric_names();
  std::vector<Metric> ordered = result.metrics;
  const auto place = [&names](const Metric& metric) {
    return std::find(names.begin(), names.end(), metric.name) - names.begin();
  };
  std::ranges::stable_sort(ordered, {}, place);
  return ordered;
}

std::string metrics_csv(const Result& result) {
  CsvRows rows({"name", "value"});
  for (const Metric& metric : ordered_metrics(result)) {
    rows.add(metric.name, exact_text(metric.value));
  }
  return rows.take();
}

std::vector<CsvTable> csv_tables(const RunDetail& detail) {
  return {
      members_table(
          "stages",
          {"stage", "rank", "compute_s", "exposed_comm_s", "bubble_s", "host_s", "peak_bytes",
           "params_bytes", "grads_bytes", "optimizer_bytes", "activations_bytes", "comm_bytes"},
          detail.stages, &StageTime::stage, &StageTime::rank, &StageTime::compute_s,
          &StageTime::exposed_comm_s, &StageTime::bubble_s, &StageTime::host_s,
          &StageTime::peak_bytes, &StageTime::at_peak),
      members_table("axes", {"axis", "exposed_s", "hidden_s", "bytes_sent"}, detail.axes,
                    &AxisComm::axis, &AxisComm::exposed_s, &AxisComm::hidden_s,
                    &AxisComm::bytes_sent),
      members_table("links", {"tier", "bytes", "bandwidth_gb_per_s", "busiest_share", "busiest"},
                    detail.links, &LinkUse::tier, &LinkUse::bytes, &LinkUse::bandwidth_gb_per_s,
                    &LinkUse::busiest_share, &LinkUse::busiest),
      traffic_table(detail),
      members_table("operations", {"name", "calls", "time_s", "flops", "bytes"},
                    detail.roofline.points, &RooflinePoint::name, &RooflinePoint::calls,
                    &RooflinePoint::time_s, &RooflinePoint::flops, &RooflinePoint::bytes),
      memory_table(detail),
      schedule_table(detail)};
}

}  // namespace shardsim

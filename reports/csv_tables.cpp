#include "reports/csv_tables.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

#include <fmt/format.h>

namespace shardsim {

namespace {

bool is_number(std::string_view text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end;
}

bool is_formula(std::string_view text) {
  constexpr std::string_view kFirst = "=+-@\t\r\n";
  return !text.empty() && kFirst.find(text.front()) != std::string_view::npos && !is_number(text);
}

// Writes one table, row by row.
class CsvRows {
 public:
  explicit CsvRows(std::initializer_list<const char*> names) {
    for (const char* name : names) cell(name);
    end_row();
  }
  CsvRows& cell(std::string_view text) {
    separate();
    text_ += csv_cell(text);
    return *this;
  }
  template <class Number>
  CsvRows& number(Number value) {
    separate();
    text_ += fmt::format("{}", value);
    return *this;
  }
  void end_row() {
    text_ += '\n';
    is_first_ = true;
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  void separate() {
    if (!is_first_) text_ += ',';
    is_first_ = false;
  }
  std::string text_;
  bool is_first_ = true;
};

void add_categories(CsvRows& rows, const std::array<std::int64_t, kNumMemoryCategories>& bytes) {
  for (const std::int64_t of_category : bytes) rows.number(of_category);
}

CsvTable stages_table(const RunDetail& detail) {
  CsvRows rows({"stage", "rank", "compute_s", "exposed_comm_s", "bubble_s", "host_s", "peak_bytes",
                "params_bytes", "grads_bytes", "optimizer_bytes", "activations_bytes",
                "comm_bytes"});
  for (const StageTime& stage : detail.stages) {
    rows.number(stage.stage).number(stage.rank).number(stage.compute_s);
    rows.number(stage.exposed_comm_s).number(stage.bubble_s).number(stage.host_s);
    rows.number(stage.peak_bytes);
    add_categories(rows, stage.at_peak);
    rows.end_row();
  }
  return {"stages", rows.take()};
}

CsvTable axes_table(const RunDetail& detail) {
  CsvRows rows({"axis", "exposed_s", "hidden_s", "bytes_sent"});
  for (const AxisComm& axis : detail.axes) {
    rows.cell(axis.axis).number(axis.exposed_s).number(axis.hidden_s).number(axis.bytes_sent);
    rows.end_row();
  }
  return {"axes", rows.take()};
}

CsvTable links_table(const RunDetail& detail) {
  CsvRows rows({"tier", "bytes", "bandwidth_gb_per_s", "busiest_share", "busiest"});
  for (const LinkUse& link : detail.links) {
    rows.cell(link.tier).number(link.bytes).number(link.bandwidth_gb_per_s);
    rows.number(link.busiest_share).cell(link.busiest);
    rows.end_row();
  }
  return {"links", rows.take()};
}

// Pairs without traffic have no row.
CsvTable traffic_table(const RunDetail& detail) {
  const TrafficMatrix& matrix = detail.traffic;
  CsvRows rows({"from_rank", "to_rank", "ranks_per_cell", "steps", "bytes"});
  for (std::size_t i = 0; i < matrix.bytes.size(); ++i) {
    if (matrix.bytes[i] == 0) continue;
    const auto from = static_cast<std::int64_t>(i / matrix.cells);
    const auto to = static_cast<std::int64_t>(i % matrix.cells);
    rows.number(from * matrix.ranks_per_cell).number(to * matrix.ranks_per_cell);
    rows.number(matrix.ranks_per_cell).number(matrix.steps).number(matrix.bytes[i]);
    rows.end_row();
  }
  return {"traffic", rows.take()};
}

CsvTable operations_table(const RunDetail& detail) {
  CsvRows rows({"name", "calls", "time_s", "flops", "bytes"});
  for (const RooflinePoint& point : detail.roofline.points) {
    rows.cell(point.name).number(point.calls).number(point.time_s);
    rows.number(point.flops).number(point.bytes);
    rows.end_row();
  }
  return {"operations", rows.take()};
}

CsvTable memory_table(const RunDetail& detail) {
  CsvRows rows({"stage", "rank", "time_s", "params_bytes", "grads_bytes", "optimizer_bytes",
                "activations_bytes", "comm_bytes"});
  for (const MemoryCurve& curve : detail.memory) {
    for (const MemoryCurve::Point& point : curve.points) {
      rows.number(curve.stage).number(curve.rank).number(point.time_s);
      add_categories(rows, point.bytes);
      rows.end_row();
    }
  }
  return {"memory", rows.take()};
}

CsvTable schedule_table(const RunDetail& detail) {
  CsvRows rows({"stage", "rank", "track", "name", "chunk", "microbatch", "begin_s", "end_s"});
  for (const GanttRow& row : detail.schedule.rows) {
    for (const GanttBar& bar : row.bars) {
      rows.number(row.stage).number(row.rank).cell(row.track);
      rows.cell(detail.schedule.names.at(bar.name)).number(bar.chunk).number(bar.microbatch);
      rows.number(bar.begin_s).number(bar.end_s);
      rows.end_row();
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
  std::stable_sort(ordered.begin(), ordered.end(),
                   [&](const Metric& a, const Metric& b) { return place(a) < place(b); });
  return ordered;
}

std::string metrics_csv(const Result& result) {
  CsvRows rows({"name", "value"});
  for (const Metric& metric : ordered_metrics(result)) {
    rows.cell(metric.name).cell(exact_text(metric.value));
    rows.end_row();
  }
  return rows.take();
}

std::vector<CsvTable> csv_tables(const RunDetail& detail) {
  return {stages_table(detail),  axes_table(detail),       links_table(detail),
          traffic_table(detail), operations_table(detail), memory_table(detail),
          schedule_table(detail)};
}

}  // namespace shardsim

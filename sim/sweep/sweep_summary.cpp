#include "sim/sweep/sweep_summary.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "reports/units.hpp"
#include "scenarios/field.hpp"
#include "scenarios/source_text.hpp"

namespace shardsim {

namespace {

constexpr std::size_t kShownBest = 5;
constexpr std::size_t kShownFront = 12;
constexpr std::size_t kWidestCell = 24;
constexpr std::size_t kWidestMessage = 200;  // Two lines of most terminals.

bool better(double a, double b, const SweepObjective& objective) {
  return objective.maximize ? a > b : a < b;
}

// At least as good in all, and better in one.
bool dominates(const ScoredPoint& a, const ScoredPoint& b,
               const std::vector<SweepObjective>& objectives) {
  bool any = false;
  for (std::size_t i = 0; i < objectives.size(); ++i) {
    if (better(b.scores[i], a.scores[i], objectives[i])) return false;
    any = any || better(a.scores[i], b.scores[i], objectives[i]);
  }
  return any;
}

std::vector<std::size_t> ordered_by(const std::vector<ScoredPoint>& scored,
                                    const std::vector<SweepObjective>& objectives,
                                    std::size_t first) {
  std::vector<std::size_t> order(scored.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (better(scored[a].scores[first], scored[b].scores[first], objectives[first])) return true;
    if (better(scored[b].scores[first], scored[a].scores[first], objectives[first])) return false;
    // Among equals, those that are better in other objectives come first.
    return dominates(scored[a], scored[b], objectives);
  });
  return order;
}

std::string cell_of(double value, const std::string& metric) {
  const MetricRow* const row = find_metric(metric);
  const std::string_view unit = row == nullptr ? "" : row->unit;
  if (unit == "bytes") return format_memory(value);
  if (unit == "bytes/step") return format_traffic(value);
  if (unit == "s/step") return format_seconds(value);
  return format_number(value);
}

// The last key, if no other column ends in it.
std::vector<std::string> short_names(const std::vector<std::string>& columns) {
  std::vector<std::string> names;
  for (const std::string& column : columns) {
    const auto same = std::count_if(columns.begin(), columns.end(), [&](const std::string& other) {
      return last_key(other) == last_key(column);
    });
    names.push_back(same == 1 ? last_key(column) : column);
  }
  return names;
}

std::string unquoted(const std::string& value) {
  std::string text =
      value.size() > 1 && value.front() == '"' ? value.substr(1, value.size() - 2) : value;
  if (text.size() > kWidestCell) text = text.substr(0, kWidestCell - 3) + "...";
  return text;
}

using TableRows = std::vector<std::vector<std::string>>;

// Every cell is aligned to the right of its column.
std::string aligned(const TableRows& rows) {
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    std::string line = " ";
    for (std::size_t i = 0; i < row.size(); ++i) {
      std::size_t width = 0;
      for (const std::vector<std::string>& other : rows) width = std::max(width, other[i].size());
      line += fmt::format(" {:>{}} ", row[i], width);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string table_of(const std::vector<ScoredPoint>& scored, const std::vector<std::size_t>& order,
                     std::size_t shown, const std::vector<std::string>& columns,
                     const std::vector<SweepObjective>& objectives) {
  std::vector<std::string> head = {"point"};
  for (const std::string& name : short_names(columns)) head.push_back(name);
  for (const SweepObjective& objective : objectives) head.push_back(objective.metric);
  TableRows rows = {head};
  for (std::size_t i = 0; i < std::min(shown, order.size()); ++i) {
    const ScoredPoint& point = scored[order[i]];
    std::vector<std::string> row = {std::to_string(point.point)};
    for (const std::string& value : point.values) row.push_back(printable(unquoted(value)));
    for (std::size_t k = 0; k < objectives.size(); ++k) {
      row.push_back(cell_of(point.scores[k], objectives[k].metric));
    }
    rows.push_back(std::move(row));
  }
  return aligned(rows);
}

// The numbers in the messages of one code differ from point to point, so codes are counted.
void add_reason(SweepFindings& findings, const PointRow& row) {
  ReasonCount& reason = findings.reasons.at(static_cast<std::size_t>(row.status))[row.code];
  if (reason.count++ == 0) {
    reason.point = row.point;
    reason.message = row.message;
  }
}

// The reasons of most points of each status, with the message of one of them.
std::string reasons_text(const SweepFindings& findings) {
  std::string text;
  for (std::size_t i = 0; i < findings.reasons.size(); ++i) {
    const auto& reasons = findings.reasons.at(i);
    if (reasons.empty()) continue;
    const auto& [code, reason] = *std::ranges::max_element(
        reasons, {}, [](const auto& entry) { return entry.second.count; });
    text += fmt::format("  {}: {} x {}; point {}: {}\n", name_of(static_cast<PointStatus>(i)),
                        format_count(reason.count), code, reason.point,
                        printable(reason.message, kWidestMessage));
    if (code == kInternalCode) text += "    the next run of the sweep computes these again\n";
  }
  return text;
}

}  // namespace

std::vector<SweepObjective> objectives_of(const SweepBlock& block) {
  if (!block.objectives.empty()) return block.objectives;
  return {{true, metric::kTokensPerSPerGpu.name}, {false, metric::kMemoryPeakBytesMax.name}};
}

SweepFindings find_best(const PointIndex& index, const std::vector<std::string>& columns,
                        const std::vector<SweepObjective>& objectives) {
  SweepFindings findings;
  index.for_each_line([&](const KeptRow&, const std::string& line) {
    const PointRow row = row_of(line, columns);
    ++findings.counts.at(static_cast<std::size_t>(row.status));
    if (row.status != PointStatus::ok) return add_reason(findings, row);
    ScoredPoint point{.point = row.point, .values = row.values, .scores = {}};
    for (const SweepObjective& objective : objectives) {
      const MetricValue* const value = value_of(row.metrics, objective.metric);
      const std::optional<double> score = value == nullptr ? std::nullopt : as_number(*value);
      if (!score || !std::isfinite(*score)) return;
      point.scores.push_back(*score);
    }
    findings.scored.push_back(std::move(point));
    add_bands(findings, row);
  });
  return findings;
}

std::vector<std::size_t> pareto_front(const std::vector<ScoredPoint>& scored,
                                      const std::vector<SweepObjective>& objectives) {
  std::vector<std::size_t> front;
  if (scored.empty()) return front;
  // In this order no later point dominates an earlier one.
  for (const std::size_t candidate : ordered_by(scored, objectives, 0)) {
    const bool beaten = std::any_of(front.begin(), front.end(), [&](std::size_t member) {
      return dominates(scored[member], scored[candidate], objectives);
    });
    if (!beaten) front.push_back(candidate);
  }
  return front;
}

std::string summary_text(const SweepFindings& findings, const std::vector<std::string>& columns,
                         const std::vector<SweepObjective>& objectives) {
  std::string text = "points:";
  for (std::size_t i = 0; i < findings.counts.size(); ++i) {
    if (findings.counts.at(i) == 0) continue;
    text += fmt::format(" {} {},", format_count(findings.counts.at(i)),
                        name_of(static_cast<PointStatus>(i)));
  }
  text.back() = text.back() == ',' ? '\n' : ' ';
  if (text.back() != '\n') text += "none\n";
  text += reasons_text(findings);
  if (findings.scored.empty()) return text;
  for (std::size_t i = 0; i < objectives.size(); ++i) {
    text += fmt::format("\n{} {}\n", objectives[i].maximize ? "max" : "min", objectives[i].metric);
    text += table_of(findings.scored, ordered_by(findings.scored, objectives, i), kShownBest,
                     columns, objectives);
  }
  if (objectives.size() < 2) return text + bands_text(findings);
  const std::vector<std::size_t> front = pareto_front(findings.scored, objectives);
  text += fmt::format("\nPareto front: {} of {} points\n", front.size(), findings.scored.size());
  text += table_of(findings.scored, front, kShownFront, columns, objectives);
  if (front.size() > kShownFront) {
    text += fmt::format("  and {} more\n", front.size() - kShownFront);
  }
  return text + bands_text(findings);
}

}  // namespace shardsim

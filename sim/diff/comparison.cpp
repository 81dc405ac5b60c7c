#include "sim/diff/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "sim/kernel/metric_rows.hpp"

namespace shardsim {

namespace {

constexpr const char* kAllocatedPeak = metric::kMemoryAllocatedPeakBytesMax.name;
constexpr const char* kExposedPrefix = "exposed ";

bool has_part(const std::vector<Part>& parts, const std::string& name) {
  return std::any_of(parts.begin(), parts.end(),
                     [&name](const Part& part) { return part.name == name; });
}

std::int64_t amount_of(const std::vector<Part>& parts, const std::string& name) {
  const auto part = std::find_if(parts.begin(), parts.end(),
                                 [&name](const Part& other) { return other.name == name; });
  return part == parts.end() ? 0 : part->amount;
}

void add_to(std::vector<Part>& parts, const std::string& name, std::int64_t amount) {
  const auto part = std::find_if(parts.begin(), parts.end(),
                                 [&name](const Part& other) { return other.name == name; });
  if (part == parts.end()) {
    parts.push_back({name, amount});
  } else {
    part->amount += amount;
  }
}

bool tells_axes(const RunSide& side) {
  return std::any_of(side.time.begin(), side.time.end(), [](const Part& part) {
    return part.name.rfind(kExposedPrefix, 0) == 0 && part.name != kExposedPart;
  });
}

// The parts of a side, as coarse as those of the other side.
std::vector<Part> parts_beside(const RunSide& side, const RunSide& other) {
  if (side.time.empty() || other.time.empty()) return {{kUntoldPart, side.step_ps}};
  const bool with_idle = has_part(other.time, kIdlePart);
  const bool with_axes = tells_axes(other);
  std::vector<Part> parts;
  for (const Part& part : side.time) {
    std::string name = part.name;
    if (with_idle && (name == kBubblePart || name == kHostPart)) name = kIdlePart;
    if (!with_axes && name.rfind(kExposedPrefix, 0) == 0) name = kExposedPart;
    add_to(parts, name, part.amount);
  }
  return parts;
}

// Rows in the order of `a`, then those of `b` only, then the rest.
DiffTable table_of(DiffRow total, const std::vector<Part>& a, const std::vector<Part>& b) {
  DiffTable table{.total = std::move(total)};
  DiffRow rest{kOtherPart, table.total.a, table.total.b};
  const auto add = [&](const std::string& name) {
    const DiffRow row{name, amount_of(a, name), amount_of(b, name)};
    rest.a -= row.a;
    rest.b -= row.b;
    if (row.a != 0 || row.b != 0) table.rows.push_back(row);
  };
  for (const Part& part : a) add(part.name);
  for (const Part& part : b) {
    if (!has_part(a, part.name)) add(part.name);
  }
  if (rest.a != 0 || rest.b != 0) table.rows.push_back(rest);
  return table;
}

std::optional<DiffTable> memory_of(const RunSide& a, const RunSide& b) {
  if (a.peak_bytes && b.peak_bytes) {
    return table_of({"memory peak", *a.peak_bytes, *b.peak_bytes}, a.memory, b.memory);
  }
  const auto of_a = a.metrics.find(kAllocatedPeak);
  const auto of_b = b.metrics.find(kAllocatedPeak);
  if (of_a == a.metrics.end() || of_b == b.metrics.end()) return std::nullopt;
  return DiffTable{{"max allocated", std::llround(of_a->second), std::llround(of_b->second)}, {}};
}

std::vector<DiffRow> traffic_of(const RunSide& a, const RunSide& b) {
  if (a.traffic.empty() || b.traffic.empty()) return {};
  std::vector<DiffRow> rows;
  for (const Part& part : a.traffic) {
    const DiffRow row{part.name, part.amount, amount_of(b.traffic, part.name)};
    if (row.a != 0 || row.b != 0) rows.push_back(row);
  }
  return rows;
}

std::string field_of(const RunSide& side, const std::string& path) {
  const auto field = side.fields.find(path);
  return field == side.fields.end() ? "" : field->second;
}

// A measured run has few fields: only these can differ.
std::vector<FieldChange> changes_of(const RunSide& a, const RunSide& b) {
  std::set<std::string> paths;
  const bool partial = a.kind == SideKind::megatron_log || b.kind == SideKind::megatron_log ||
                       a.kind == SideKind::profiler_trace || b.kind == SideKind::profiler_trace;
  for (const auto& [path, value] : a.fields) paths.insert(path);
  for (const auto& [path, value] : b.fields) paths.insert(path);
  std::vector<FieldChange> changes;
  for (const std::string& path : paths) {
    FieldChange change{path, field_of(a, path), field_of(b, path)};
    const bool told = a.fields.count(path) > 0 && b.fields.count(path) > 0;
    if (change.a != change.b && (told || !partial)) changes.push_back(std::move(change));
  }
  return changes;
}

std::vector<std::string> missing_in(const std::vector<std::string>& some,
                                    const std::vector<std::string>& others) {
  std::vector<std::string> missing;
  for (const std::string& text : some) {
    if (std::find(others.begin(), others.end(), text) == others.end()) missing.push_back(text);
  }
  return missing;
}

// A prediction is no more exact than its band; two of them must each lie outside the other's. Steps
// of different work are scaled to each other's, so that their rates are compared.
BandVerdict verdict_of(const RunSide& a, const RunSide& b, const std::optional<WorkChange>& work) {
  if (work && !work->model.empty()) return BandVerdict::unlike;
  if (a.is_measured() && b.is_measured()) return BandVerdict::no_band;
  if ((!a.is_measured() && !a.band) || (!b.is_measured() && !b.band)) return BandVerdict::no_band;
  const double scale = work ? work->b.tokens_of_a_gpu() / work->a.tokens_of_a_gpu() : 1.0;
  const auto scaled = [](std::int64_t step_ps, double by) {
    return std::llround(static_cast<double>(step_ps) * by);
  };
  const bool in_a = a.is_measured() || holds(a.band, scaled(b.step_ps, 1.0 / scale));
  const bool in_b = b.is_measured() || holds(b.band, scaled(a.step_ps, scale));
  return in_a && in_b ? BandVerdict::within_band : BandVerdict::distinguishable;
}

}  // namespace

bool holds(const std::optional<StepBand>& band, std::int64_t step_ps) {
  const double step_s = seconds_of(step_ps);
  return band && band->low_s <= step_s && step_s <= band->high_s;
}

RunComparison compare(RunSide a, RunSide b) {
  RunComparison result;
  result.time =
      table_of({"step time", a.step_ps, b.step_ps}, parts_beside(a, b), parts_beside(b, a));
  result.memory = memory_of(a, b);
  result.traffic = traffic_of(a, b);
  result.fields = changes_of(a, b);
  if (!a.is_measured() && !b.is_measured()) {
    result.only_in_a = missing_in(a.assumptions, b.assumptions);
    result.only_in_b = missing_in(b.assumptions, a.assumptions);
  }
  for (const auto& [name, value] : a.metrics) {
    const auto other = b.metrics.find(name);
    if (other != b.metrics.end()) result.metrics.push_back({name, value, other->second});
  }
  result.outcomes = outcomes_of(a, b);
  result.work = work_change(a, b);
  result.unlike = unlike_words(a, b);
  result.verdict = result.unlike.empty() ? verdict_of(a, b, result.work) : BandVerdict::unlike;
  result.a = std::move(a);
  result.b = std::move(b);
  return result;
}

void add_axes(RunSide& side, const std::vector<AxisComm>& axes) {
  std::vector<Part> parts;
  for (const Part& part : side.time) {
    if (part.name != kExposedPart) {
      parts.push_back(part);
      continue;
    }
    std::int64_t rest = part.amount;
    for (const AxisComm& axis : axes) {
      const std::int64_t exposed = picoseconds_of(axis.exposed_s);
      if (exposed == 0) continue;
      parts.push_back({kExposedPrefix + axis.axis, exposed});
      rest -= exposed;
    }
    if (rest != 0) parts.push_back({kExposedPart, rest});
  }
  side.time = std::move(parts);
}

const DiffRow* main_reason(const DiffTable& table) {
  const DiffRow* reason = nullptr;
  const std::int64_t total = table.total.difference();
  for (const DiffRow& row : table.rows) {
    const bool same_way = (row.difference() < 0) == (total < 0) && row.difference() != 0;
    const bool larger =
        reason == nullptr || std::abs(row.difference()) > std::abs(reason->difference());
    if (total != 0 && same_way && larger) reason = &row;
  }
  return reason;
}

}  // namespace shardsim

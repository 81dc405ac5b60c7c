#include "sim/diff/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"
#include "sim/kernel/metric_rows.hpp"
#include "sim/kernel/text.hpp"

#include "reports/units.hpp"
#include "scenarios/suggest.hpp"

namespace shardsim {
namespace {

constexpr const char* kAllocatedPeak = metric::kMemoryAllocatedPeakBytesMax.name;
constexpr const char* kExposedPrefix = "exposed ";
constexpr const char* kDataParallel = "parallelism.data_parallel";
constexpr const char* kElasticPrefix = "parallelism.elastic_";

bool has_part(const std::vector<Part>& parts, const std::string& name) {
  return std::ranges::find(parts, name, &Part::name) != parts.end();
}

std::int64_t amount_of(const std::vector<Part>& parts, const std::string& name) {
  const auto part = std::ranges::find(parts, name, &Part::name);
  return part == parts.end() ? 0 : part->amount;
}

void add_to(std::vector<Part>& parts, const std::string& name, std::int64_t amount) {
  auto part = std::ranges::find(parts, name, &Part::name);
  if (part == parts.end()) part = parts.insert(part, {name, 0});
  part->amount += amount;
}

bool tells_axes(const RunSide& side) {
  return std::ranges::any_of(side.time, [](const Part& part) {
    return part.name.starts_with(kExposedPrefix) && part.name != kExposedPart;
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
    if (!with_axes && name.starts_with(kExposedPrefix)) name = kExposedPart;
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
  const auto of_a = a.metric(kAllocatedPeak);
  const auto of_b = b.metric(kAllocatedPeak);
  if (!of_a || !of_b) return std::nullopt;
  return DiffTable{{"max allocated", std::llround(*of_a), std::llround(*of_b)}, {}};
}

std::vector<DiffRow> traffic_of(const RunSide& a, const RunSide& b) {
  if (a.traffic.empty() || b.traffic.empty()) return {};
  std::vector<DiffRow> rows;
  for (const auto& [name, amount] : a.traffic) {
    const DiffRow row{name, amount, amount_of(b.traffic, name)};
    if (row.a != 0 || row.b != 0) rows.push_back(row);
  }
  return rows;
}

// A measured run has few fields: only these can differ.
std::vector<FieldChange> changes_of(const RunSide& a, const RunSide& b) {
  const bool partial = a.kind == SideKind::megatron_log || b.kind == SideKind::megatron_log ||
                       a.kind == SideKind::profiler_trace || b.kind == SideKind::profiler_trace;
  std::vector<FieldChange> changes;
  for (const std::string& path : compared_fields({&a, &b})) {
    FieldChange change{path, a.field(path), b.field(path)};
    const bool told = a.fields.count(path) > 0 && b.fields.count(path) > 0;
    if (change.a != change.b && (told || !partial)) changes.push_back(std::move(change));
  }
  return changes;
}

std::vector<std::string> missing_in(const std::vector<std::string>& some,
                                    const std::vector<std::string>& others) {
  std::vector<std::string> missing = some;
  std::erase_if(missing, [&](const auto& text) { return std::ranges::count(others, text) > 0; });
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

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

}  // namespace

bool holds(const std::optional<StepBand>& band, std::int64_t step_ps) {
  const double step_s = seconds_of(step_ps);
  return band && band->low_s <= step_s && step_s <= band->high_s;
}

RunComparison compare(RunSide a, RunSide b) {
  if (a.letter.empty()) a.letter = "A";
  if (b.letter.empty()) b.letter = "B";
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
    if (const auto other = b.metric(name)) result.metrics.push_back({name, value, *other});
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

ChangeLimit parse_limit(const std::string& text) {
  const std::size_t sign = text.find_first_of("<>");
  if (sign != std::string::npos) {
    ChangeLimit limit{.metric = trimmed(text.substr(0, sign)), .above = text[sign] == '>'};
    std::string number = trimmed(text.substr(sign + 1));
    limit.relative = !number.empty() && number.back() == '%';
    if (limit.relative) number = trimmed(number.substr(0, number.size() - 1));
    if (!number.empty() && number.front() == '+') number.erase(0, 1);
    limit.limit = parse_number<double>(number).value_or(std::nan(""));
    if (!limit.metric.empty() && std::isfinite(limit.limit)) return limit;
  }
  throw UsageError("E1344", fmt::format("--fail-if \"{}\" is no limit on a change", text),
                   "write \"METRIC > 2%\", \"METRIC < -5%\", or a change in the metric's own unit");
}

std::string breach_of(const ChangeLimit& limit, const RunComparison& comparison) {
  const auto pair = std::ranges::find(comparison.metrics, limit.metric, &MetricPair::name);
  if (pair == comparison.metrics.end()) {
    std::vector<std::string> known;
    for (const MetricPair& other : comparison.metrics) known.push_back(other.name);
    std::string near = nearest(limit.metric, known);
    // "step" begins one or several; the shortest is meant.
    const auto begun = std::ranges::min_element(known, {}, [&](const std::string& name) {
      return std::pair(!name.starts_with(limit.metric + "_"), name.size());
    });
    if (near.empty() && begun != known.end() && begun->starts_with(limit.metric + "_")) {
      near = *begun;
    }
    throw UsageError("E1344", fmt::format("A and B do not both have \"{}\"", limit.metric),
                     near.empty() ? "they tell " + one_of_list(known) : "write \"" + near + "\"");
  }
  double change = pair->b - pair->a;
  if (limit.relative) {
    if (pair->a == 0.0 && change != 0.0) {
      throw UsageError("E1344",
                       fmt::format("\"{}\" is 0 in A: there is no percentage of it", limit.metric),
                       "give the limit in the metric's own unit, without %");
    }
    change = pair->a == 0.0 ? 0.0 : change / pair->a * kPercent;
  }
  if (limit.above ? change <= limit.limit : change >= limit.limit) return "";
  const char* const unit = limit.relative ? " %" : "";
  return fmt::format("{} changes by {:+.4g}{} ({} -> {}), {} {:g}{}", limit.metric, change, unit,
                     pair->a, pair->b, limit.above ? "more than" : "less than", limit.limit, unit);
}

std::set<std::string> compared_fields(const std::vector<const RunSide*>& sides) {
  const bool is_elastic = std::ranges::any_of(
      sides, [](const RunSide* side) { return side->field(kDataParallel) == "elastic"; });
  std::set<std::string> paths;
  for (const RunSide* side : sides) {
    for (const auto& [path, value] : side->fields) {
      if (is_elastic || !path.starts_with(kElasticPrefix)) paths.insert(path);
    }
  }
  return paths;
}

}  // namespace shardsim

#include "sim/run/detail/schedule_chart.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "sim/run/metrics.hpp"

namespace shardsim {

namespace {

struct NamedRow {
  std::int64_t stage;
  int rank;
  std::string track;
  BarRow* row;
};

std::vector<NamedRow> rows_of(const WatchedRun& watched, const std::vector<StageTime>& stages) {
  std::vector<NamedRow> rows;
  for (const StageTime& stage : stages) {
    RankRecorder& recorder = watched.of(stage.rank);
    rows.push_back({stage.stage, stage.rank, "compute", &recorder.compute()});
    std::map<std::string, int> seen;
    for (auto& [stream, row] : recorder.streams()) {
      const int number = ++seen[stream.first];
      const std::string suffix = number == 1 ? "" : fmt::format(" {}", number);
      rows.push_back({stage.stage, stage.rank, stream.first + suffix, &row});
    }
  }
  return rows;
}

std::size_t count_bars(const std::vector<NamedRow>& rows) {
  std::size_t bars = 0;
  for (const NamedRow& row : rows) bars += row.row->bars().size();
  return bars;
}

Time coarsest(const std::vector<NamedRow>& rows) {
  Time blur;
  for (const NamedRow& row : rows) blur = max(blur, row.row->blur());
  return blur;
}

class Names {
 public:
  std::uint32_t index_of_name(std::string_view name) {
    const auto next = static_cast<std::uint32_t>(names_.size());
    const auto [place, is_new] = places_.try_emplace(name, next);
    if (is_new) names_.emplace_back(name);
    return place->second;
  }
  std::vector<std::string> take() { return std::move(names_); }

 private:
  std::map<std::string_view, std::uint32_t> places_;
  std::vector<std::string> names_;
};

GanttRow drawn(const NamedRow& row, Time origin, Names& names) {
  GanttRow drawn{.stage = row.stage, .rank = row.rank, .track = row.track, .bars = {}};
  for (const TimedBar& bar : row.row->bars()) {
    drawn.bars.push_back({.name = names.index_of_name(bar.name),
                          .chunk = bar.chunk,
                          .microbatch = bar.microbatch,
                          .begin_s = (bar.begin - origin).seconds(),
                          .end_s = (bar.end - origin).seconds()});
  }
  return drawn;
}

}  // namespace

ScheduleChart schedule_chart(const WatchedRun& watched, const std::vector<StageTime>& stages,
                             Time origin, std::vector<std::string>& notes) {
  const std::vector<NamedRow> rows = rows_of(watched, stages);
  while (count_bars(rows) > kMaxGanttBars) {
    const Time blur = BarRow::coarser(coarsest(rows));
    for (const NamedRow& row : rows) row.row->coarsen(blur);
  }
  if (const Time blur = coarsest(rows); blur > Time()) {
    constexpr double kMicro = 1e6;
    notes.push_back(fmt::format(
        "The schedule is drawn coarsely: gaps, and bars beside others, of up to {:.3g} us do not "
        "show.",
        blur.seconds() * kMicro));
  }
  ScheduleChart chart;
  Names names;
  for (const NamedRow& row : rows) chart.rows.push_back(drawn(row, origin, names));
  chart.names = names.take();
  return chart;
}

}  // namespace shardsim

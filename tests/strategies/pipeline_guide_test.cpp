#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "strategies/pipeline/lower.hpp"
#include "strategies/pipeline/schedule_row.hpp"
#include "strategies/pipeline/timeline.hpp"
#include "strategies/pipeline/validate.hpp"

// The pictures and numbers of docs/guide/pipeline-schedules.md are what the code says. They stand
// below markers, `<!-- picture: NAME RANKS CHUNKS MICROBATCHES -->` and `<!-- costs: RANKS
// MICROBATCHES -->`, and are written anew by
//   UPDATE_GOLDEN=1 meson test -C build strategies
namespace shardsim {

namespace {

constexpr const char* kGuide = "docs/guide/pipeline-schedules.md";

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Timeline unit_timeline(const PipelineSchedule& schedule) { return timeline(schedule, {{{}}, 0}); }

std::string picture(std::istream& words) {
  std::string name;
  PipelineShape shape;
  words >> name >> shape.num_ranks >> shape.num_chunks >> shape.num_microbatches;
  const PipelineSchedule schedule = make_schedule(name, shape);
  return to_picture(schedule, unit_timeline(schedule));
}

// In tenths of a per cent, so that the text is exact.
std::string percent(std::int64_t part, std::int64_t whole) {
  const std::int64_t tenths = (2000 * part + whole) / (2 * whole);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " %";
}

std::string right(const std::string& text, std::size_t width) {
  return std::string(text.size() < width ? width - text.size() : 0, ' ') + text;
}

std::string cost_row(std::string_view name, int chunks, int ranks, int microbatches) {
  const PipelineSchedule schedule = make_schedule(name, {ranks, chunks, microbatches});
  // A whole share of a microbatch takes F = I = W = 2, a chunk of two takes 1.
  const std::int64_t unit = 2 / chunks;
  const Timeline times = timeline(schedule, {{{unit, unit, unit}}, 0});
  std::int64_t worst_in_span = 0;
  for (const RankTimeline& rank : times.ranks) {
    worst_in_span = std::max(worst_in_span, rank.idle_in_span);
  }
  std::int64_t sends = 0;
  for (const auto& cells : lower(schedule).actions) {
    for (const Action& action : cells) sends += is_send(action.kind) ? 1 : 0;
  }
  const auto in_flight = [&](const RankTimeline& rank) {
    const int halves = 2 * rank.peak_in_flight / chunks;
    return std::to_string(halves / 2) + (halves % 2 == 1 ? ".5" : "");
  };
  std::string line(name);
  line.resize(18, ' ');
  return line + right(std::to_string(chunks), 6) +
         right(percent(times.ranks[0].idle, times.makespan), 10) +
         right(percent(worst_in_span, times.makespan), 10) +
         right(in_flight(times.ranks.front()), 19) + right(in_flight(times.ranks.back()), 18) +
         right(std::to_string(sends), 10) + "\n";
}

std::string costs(std::istream& words) {
  int ranks = 0;
  int microbatches = 0;
  words >> ranks >> microbatches;
  std::string text =
      "schedule          chunks      idle   in span  in flight, rank 0  on the last rank  "
      "messages\n";
  for (const std::string_view name : schedule_names()) {
    text += cost_row(name, schedule_row(name).max_chunks == 1 ? 1 : 2, ranks, microbatches);
  }
  return text;
}

// The guide with every block below a marker replaced by what the code says.
std::string renewed(const std::string& guide) {
  std::istringstream lines(guide);
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    text += line + "\n";
    std::istringstream words(line);
    std::string begin;
    std::string kind;
    words >> begin >> kind;
    if (begin != "<!--" || (kind != "picture:" && kind != "costs:")) continue;
    std::getline(lines, line);
    REQUIRE(line == "```text");
    while (std::getline(lines, line) && line != "```") {
    }
    text += "```text\n" + (kind == "costs:" ? costs(words) : picture(words)) + "```\n";
  }
  return text;
}

}  // namespace

TEST_CASE("the guide shows the schedules as they are") {
  const std::string guide = content_of(kGuide);
  const std::string expected = renewed(guide);
  if (std::getenv("UPDATE_GOLDEN") != nullptr) {
    std::ofstream(kGuide, std::ios::binary) << expected;
  }
  for (const std::string_view name : schedule_names()) {
    CHECK(guide.find("<!-- picture: " + std::string(name) + " ") != std::string::npos);
  }
  CHECK(guide.find("<!-- costs: ") != std::string::npos);
  REQUIRE(content_of(kGuide) == expected);
}

TEST_CASE("the guide shows how a wrong schedule is explained") {
  PipelineSchedule wrong = make_schedule("1f1b", {3, 1, 4});
  std::swap(wrong.actions[1][1], wrong.actions[1][3]);
  const std::string explanation = explain(wrong, validate(wrong).front());
  CHECK(content_of(kGuide).find("```text\n" + explanation + "```") != std::string::npos);
}

TEST_CASE("a picture shows when actions start, go on and pause") {
  const PipelineSchedule schedule = make_schedule("1f1b", {2, 1, 2});
  CHECK(to_picture(schedule, unit_timeline(schedule)) ==
        "time   0   1   2   3   4   5   6   7   8\n"
        "rank 0 0F0 0F1 .   .   0B0 --- .   0B1 ---\n"
        "rank 1 .   1F0 1B0 --- 1F1 1B1 --- .   .\n");
  // Actions that take no time are not shown.
  CHECK(to_picture(schedule, timeline(schedule, {{{1, 0, 0}}, 0})) ==
        "time   0   1   2\n"
        "rank 0 0F0 0F1 .\n"
        "rank 1 .   1F0 1F1\n");
  CHECK_THROWS_AS(to_picture(schedule, timeline(schedule, {{{10'000, 0, 0}}, 0})), LimitError);
}

}  // namespace shardsim

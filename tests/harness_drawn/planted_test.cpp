#include <array>
#include <chrono>
#include <cstdio>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/harness/check.hpp"
#include "tests/harness_drawn/draw_program.hpp"
#include "tests/harness_drawn/neutral.hpp"
#include "tests/property/check_property.hpp"

// Every single change of a call of a correct program is reported, but those that are neutral.
namespace shardsim::drawn {

namespace {

constexpr int kPlantedPrograms = 2'000;
constexpr int kLongPlantedPrograms = 20'000;
// One program of so many is changed at every place, the others at one place of each kind.
constexpr int kWhole = 100;

struct Tally {
  int planted = 0;
  int neutral = 0;
  int silent = 0;    // Neutral ones of which nothing was said.
  int reported = 0;  // Others:
  int right_code = 0;
  int first = 0;   // the culprit alone in first place,
  int either = 0;  // or one of two, of whom nobody can say which is wrong.
};

bool begins_with(const std::string& text, std::string_view begin) {
  return text.rfind(begin, 0) == 0;
}

// Whether the code is one that the guide gives for this bug.
bool is_right_code(const ProgramPlan& plan, const Plant& plant, const std::string& code) {
  const PlannedCall& call =
      plan.ranks[static_cast<std::size_t>(plant.rank)].actions[plant.action].call;
  const bool message = !call.halves.empty();
  const bool message_code = begins_with(code, "P2P_") || code == "DEADLOCK" ||
                            code == "BUFFER_HAZARD" || code == "MSG_RACE";
  const bool collective_code = begins_with(code, "COLL_") || code == "GROUP_CREATE";
  switch (plant.kind) {
    case PlantKind::kind:
      return message ? message_code || code == "BUF_OVERLAP" : code == "COLL_ORDER";
    case PlantKind::count:
      return code == "COLL_COUNT" || code == "A2A_SPLIT" || code == "P2P_TRUNC" ||
             code == "P2P_MISMATCH";
    case PlantKind::dtype:
      return code == (message ? "P2P_MISMATCH" : "COLL_DTYPE");
    case PlantKind::op:
      return code == "COLL_REDOP";
    case PlantKind::root:
      return code == "COLL_ROOT";
    case PlantKind::peer:
    case PlantKind::tag:
      return message_code;
    case PlantKind::label:
      return code == "COLL_LABEL" || code == "P2P_MISMATCH" || code == "P2P_AMBIGUOUS";
    case PlantKind::group:
      return collective_code;
    case PlantKind::order:
    case PlantKind::missing:
    case PlantKind::doubled:
      return begins_with(code, "BUF_") || (message ? message_code : collective_code);
    case PlantKind::unwaited:
      return code == "REQ_LEAK" || begins_with(code, "BUF_");
    case PlantKind::read:
    case PlantKind::read_raw:
      return code == "BUF_READ_EARLY";
    case PlantKind::reuse:
      return code == "BUF_OVERLAP";
    default:
      return code == "BUF_WRITE";
  }
}

// Whether the report names two ranks, the culprit and one more, who are all that have to do with
// the call: then nobody can say which of them is wrong.
bool is_of_two(const ProgramPlan& plan, const Plant& plant, const Diagnosis& found) {
  const PlannedCall& call =
      plan.ranks[static_cast<std::size_t>(plant.rank)].actions[plant.action].call;
  const bool two = !call.halves.empty() || plan.members(call.group, plant.rank).size() == 2 ||
                   found.members.size() == 2;
  std::set<int> named;
  for (const DiagnosisSide& side : found.sides) named.insert(side.ranks.begin(), side.ranks.end());
  return two && named.size() == 2 && named.contains(plant.rank);
}

void judge(const ProgramPlan& plan, const Plant& plant, const CheckReport& report, Tally& tally) {
  ++tally.planted;
  if (is_neutral(plan, plant)) {
    ++tally.neutral;
    tally.silent += report.passed() ? 1 : 0;
    return;
  }
  if (report.passed()) return;
  ++tally.reported;
  const Diagnosis& found = *report.failure;
  tally.right_code += is_right_code(plan, plant, found.code) ? 1 : 0;
  if (found.sides.front().ranks == std::vector<int>{plant.rank}) {
    ++tally.first;
  } else if (is_of_two(plan, plant, found)) {
    ++tally.either;
  }
}

// Fails with the smallest program whose change is missed, or neutral and not left in peace.
void try_plant(const ProgramPlan& plan, const Plant& plant, Tally& tally) {
  const ProgramPlan changed = planted(plan, plant);
  CheckOptions options{.name = "drawn", .ranks = {static_cast<int>(plan.ranks.size())}};
  options.explore.mode = ExploreMode::none;
  const CheckReport report = check(program_of(changed), options);
  judge(plan, plant, report, tally);
  if (report.passed() == is_neutral(plan, plant)) return;
  RC_FAIL(std::string(name_of(plant.kind)) + " on rank " + std::to_string(plant.rank) + "\n" +
          to_text(changed) + report.to_text());
}

void print_line(const char* name, const Tally& tally) {
  std::printf("figures: %-10s %8d %8d %8d %8d %8d %8d %8d\n", name, tally.planted, tally.neutral,
              tally.silent, tally.reported, tally.right_code, tally.first, tally.either);
}

Tally operator+(const Tally& a, const Tally& b) {
  return {a.planted + b.planted,   a.neutral + b.neutral,       a.silent + b.silent,
          a.reported + b.reported, a.right_code + b.right_code, a.first + b.first,
          a.either + b.either};
}

// Aim: 95 of 100.
bool are_most(int some, int all) { return some * 100 >= all * 95; }

}  // namespace

TEST_CASE("every single planted change of a call is reported, but those that are neutral") {
  constexpr std::uint64_t kStride = 7919;  // Changes fall on all ranks and calls.
  std::array<Tally, kPlantKinds> tallies;
  std::uint64_t number = 0;
  std::int64_t programs = 0;
  std::int64_t everywhere = 0;
  const auto begin = std::chrono::steady_clock::now();
  test::check_cases(test::long_run() ? kLongPlantedPrograms : kPlantedPrograms, [&] {
    const ProgramPlan plan = plan_of(*drawn_programs());
    const bool whole = programs++ % kWhole == kWhole / 2;  // Later ones are larger.
    for (int kind = 0; kind < kPlantKinds; ++kind) {
      const std::vector<Plant> places = places_of(plan, static_cast<PlantKind>(kind));
      const std::uint64_t place = ++number * kStride;
      if (places.empty()) continue;
      Tally& tally = tallies[static_cast<std::size_t>(kind)];
      if (!whole) try_plant(plan, places[place % places.size()], tally);
      for (std::size_t i = 0; whole && i < places.size(); ++i, ++everywhere) {
        try_plant(plan, places[i], tally);
      }
    }
  });
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  std::printf("figures: %-10s %8s %8s %8s %8s %8s %8s %8s\n", "change", "planted", "neutral",
              "silent", "reported", "code", "first", "of two");
  Tally all;
  for (int kind = 0; kind < kPlantKinds; ++kind) {
    const Tally& tally = tallies[static_cast<std::size_t>(kind)];
    print_line(name_of(static_cast<PlantKind>(kind)), tally);
    CAPTURE(name_of(static_cast<PlantKind>(kind)));
    CHECK(are_most(tally.first + tally.either, tally.reported));
    all = all + tally;
  }
  print_line("all", all);
  std::printf("figures: %lld of the changes are all there are of %lld programs; %.1f s\n",
              static_cast<long long>(everywhere), static_cast<long long>(programs / kWhole),
              wall.count());
  CHECK(everywhere > programs / kWhole * kPlantKinds);
  CHECK(all.silent == all.neutral);
  CHECK(all.reported == all.planted - all.neutral);
  CHECK(are_most(all.right_code, all.reported));
  // Alone in front, but where only two ranks have to do with the call and both are named.
  CHECK(are_most(all.first, all.reported - all.either));
}

}  // namespace shardsim::drawn

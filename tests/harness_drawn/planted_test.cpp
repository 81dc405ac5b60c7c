#include <array>
#include <chrono>
#include <cstdio>
#include <map>
#include <set>

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

struct Tally {
  int planted = 0;
  int neutral = 0;
  int silent = 0;    // Neutral ones of which nothing was said.
  int reported = 0;  // Of those that are not neutral,
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
  const bool two = !call.halves.empty() || plan.members(call.group, plant.rank).size() == 2;
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

}  // namespace

TEST_CASE("every single planted change of a call is reported, but those that are neutral") {
  std::array<Tally, kPlantKinds> tallies;
  const char* const show = std::getenv("DRAWN_SHOW");
  std::uint64_t number = 0;
  const auto begin = std::chrono::steady_clock::now();
  test::check_cases(test::long_run() ? kLongPlantedPrograms : kPlantedPrograms, [&] {
    const DrawnProgram program = *drawn_programs();
    const ProgramPlan plan = plan_of(program);
    for (int kind = 0; kind < kPlantKinds; ++kind) {
      const std::vector<Plant> places = places_of(plan, static_cast<PlantKind>(kind));
      if (places.empty()) continue;
      const Plant& plant = places[(++number * 7919) % places.size()];
      const ProgramPlan changed = planted(plan, plant);
      CheckOptions options{.name = "drawn", .ranks = {program.ranks}};
      options.explore.mode = ExploreMode::none;
      const CheckReport report = check(program_of(changed), options);
      Tally& tally = tallies[static_cast<std::size_t>(kind)];
      const Tally before = tally;
      judge(plan, plant, report, tally);
      if (show != nullptr) {
        const bool neutral = tally.neutral > before.neutral;
        const bool bad = neutral        ? tally.silent == before.silent
                         : *show == 'r' ? tally.reported == before.reported
                         : *show == 'c' ? tally.right_code == before.right_code
                         : *show == 't' ? tally.either > before.either &&
                                              plan.ranks[static_cast<std::size_t>(plant.rank)]
                                                      .actions[plant.action]
                                                      .call.form <= PlannedCall::Form::collective &&
                                              begins_with(report.failure->code, "P2P_")
                         : *show == 'f' ? tally.first + tally.either == before.first + before.either
                                        : false;
        if (bad) {
          std::printf("--- %s rank %d action %zu other %zu %s\n%s%s\n", name_of(plant.kind),
                      plant.rank, plant.action, plant.other, neutral ? "neutral" : "",
                      to_text(changed).c_str(), report.to_text().c_str());
        }
      }
    }
  });
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  std::printf("figures: %-10s %8s %8s %8s %8s %8s %8s %8s\n", "change", "planted", "neutral",
              "silent", "reported", "code", "first", "of two");
  Tally all;
  for (int kind = 0; kind <= kPlantKinds; ++kind) {
    const bool last = kind == kPlantKinds;
    const Tally& tally = last ? all : tallies[static_cast<std::size_t>(kind)];
    std::printf("figures: %-10s %8d %8d %8d %8d %8d %8d %8d\n",
                last ? "all" : name_of(static_cast<PlantKind>(kind)), tally.planted, tally.neutral,
                tally.silent, tally.reported, tally.right_code, tally.first, tally.either);
    if (last) break;
    all.planted += tally.planted;
    all.neutral += tally.neutral;
    all.silent += tally.silent;
    all.reported += tally.reported;
    all.right_code += tally.right_code;
    all.first += tally.first;
    all.either += tally.either;
  }
  std::printf("figures: %.1f s\n", wall.count());
  CHECK(all.silent == all.neutral);
  CHECK(all.reported == all.planted - all.neutral);
}

}  // namespace shardsim::drawn

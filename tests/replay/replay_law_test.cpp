#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <rapidcheck.h>

#include "sim/kernel/error.hpp"

#include "backends/replay/replay_world.hpp"

#include "reports/json_writer.hpp"
#include "scenarios/load.hpp"
#include "sim/run/rank_programs.hpp"
#include "sim/run/run.hpp"

#include "tests/app/folding_fixture.hpp"
#include "tests/drawn_scenario.hpp"
#include "tests/draws.hpp"
#include "tests/property/check_property.hpp"
#include "tests/replay/drawn_plan.hpp"
#include "tests/sample.hpp"

// Run = replay: whatever a plan reports, it reports bit by bit the same, whether its ranks ran or
// their programs were replayed.
namespace shardsim::test {
namespace {

RunOutcome executed(Scenario scenario, const char* engine) {
  scenario.execution.engine = engine;
  return run_scenario(std::move(scenario));
}

std::string difference_of(const RankTrace& a, const RankTrace& b) {
  if (a.name != b.name || a.tracks.size() != b.tracks.size()) return a.name + ": tracks";
  for (std::size_t track = 0; track < a.tracks.size(); ++track) {
    const std::string where = a.name + ", " + a.tracks[track].name;
    if (a.tracks[track].name != b.tracks[track].name) return where;
    if (a.tracks[track].slices.size() != b.tracks[track].slices.size()) return where + ": slices";
    for (std::size_t i = 0; i < a.tracks[track].slices.size(); ++i) {
      const TraceSlice& one = a.tracks[track].slices[i];
      const TraceSlice& other = b.tracks[track].slices[i];
      const bool same = std::string(one.name) == other.name && one.begin == other.begin &&
                        one.end == other.end && one.bytes == other.bytes &&
                        one.label == other.label && one.operation == other.operation;
      if (!same) return where + ": slice " + std::to_string(i);
    }
  }
  if (a.memory.size() != b.memory.size()) return a.name + ": memory";
  for (std::size_t i = 0; i < a.memory.size(); ++i) {
    if (a.memory[i].time != b.memory[i].time || a.memory[i].bytes != b.memory[i].bytes) {
      return a.name + ": memory " + std::to_string(i);
    }
  }
  return "";
}

// The first difference of the two outcomes in words; "" if there is none.
std::string difference_of(RunOutcome run, RunOutcome replay) {
  run.result.scenario_json = replay.result.scenario_json;
  const std::string ran = to_json(run.result);
  const std::string replayed = to_json(replay.result);
  if (ran != replayed) {
    const auto [one, other] = std::ranges::mismatch(ran, replayed);
    const auto at = static_cast<std::size_t>(one - ran.begin());
    const std::size_t from = at < 60 ? 0 : at - 60;
    return ran.substr(from, 160) + " | " + replayed.substr(from, 160);
  }
  if (run.traces.size() != replay.traces.size()) return "traces";
  for (std::size_t i = 0; i < run.traces.size(); ++i) {
    const std::string difference = difference_of(run.traces[i], replay.traces[i]);
    if (!difference.empty()) return difference;
  }
  return "";
}

std::string difference_of(const Scenario& scenario) {
  return difference_of(executed(scenario, "run"), executed(scenario, "replay"));
}

// --- Planted differences -----------------------------------------------------------------------

using Kind = ProgramStep::Kind;

// The first step of a kind from `from` on.
std::size_t first_of(const RankProgram& program, Kind kind, std::size_t from = 0) {
  while (program.steps.at(from).kind != kind) ++from;
  return from;
}

struct Planted {
  const char* what;
  std::function<void(RankPrograms&)> edit;
};

const std::vector<Planted>& planted() {
  static const std::vector<Planted> kPlanted = {
      {"nothing", [](RankPrograms&) {}},
      {"clock",
       [](RankPrograms& programs) {  // The first operation once more, by the last ranks.
         RankProgram& last = programs.programs.back();
         const std::size_t at = first_of(last, Kind::compute);
         const ProgramStep again = last.steps[at];
         last.steps.insert(last.steps.begin() + static_cast<std::ptrdiff_t>(at), again);
       }},
      {"host clock",
       [](RankPrograms& programs) {
         RankProgram& last = programs.programs.back();
         const std::size_t at = first_of(last, Kind::compute, last.steps.size() / 2);
         last.steps.insert(last.steps.begin() + static_cast<std::ptrdiff_t>(at),
                           {.kind = Kind::synchronize});
       }},
      {"memory",
       [](RankPrograms& programs) {
         std::vector<ProgramStep>& steps = programs.programs.back().steps;
         const std::size_t at = first_of(programs.programs.back(), Kind::allocate);
         const std::uint32_t slot = steps[at].slot;
         const auto is_release = [slot](const ProgramStep& step) {
           return step.kind == Kind::release && step.slot == slot;
         };
         steps.erase(std::ranges::find_if(steps, is_release));
         steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(at));
       }},
      {"traffic",
       [](RankPrograms& programs) {  // Every rank makes its last call twice.
         for (RankProgram& program : programs.programs) {
           std::vector<ProgramStep>& steps = program.steps;
           std::size_t post = steps.size() - 1;
           while (steps[post].kind != Kind::post) --post;
           const std::size_t wait = first_of(program, Kind::wait, post);
           steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(wait) + 1,
                        {steps[post], steps[wait]});
         }
       }},
      {"order of matches",
       [](RankPrograms& programs) {
         std::vector<ProgramStep>& steps = programs.programs.back().steps;
         const auto is_post = [](const ProgramStep& step) { return step.kind == Kind::post; };
         const auto one = std::ranges::find_if(steps, is_post);
         const auto other = std::find_if(one + 1, steps.end(), [&](const ProgramStep& step) {
           return is_post(step) && step.row != one->row;
         });
         std::swap(one->row, other->row);
       }},
      {"class", [](RankPrograms& programs) { programs.of_rank.back() = programs.of_rank.front(); }},
  };
  return kPlanted;
}

}  // namespace

TEST_CASE("run = replay: planted differences of a program are seen") {
  const Scenario scenario =
      load_scenario_text(small_plan("llama"), "test.json",
                         {"parallelism.tp=2", "parallelism.pp=2", "parallelism.zero_stage=1",
                          "parallelism.overlap_grad_reduce=true", "system.host_us_per_kernel=30"});
  const RunOutcome run = executed(scenario, "run");
  for (const Planted& one : planted()) {
    INFO(one.what);
    Scenario edited = scenario;
    edited.execution.engine = "replay";
    std::string seen;
    try {
      seen = difference_of(run, run_scenario(edited, {.edit_programs = one.edit}));
    } catch (const LimitError& refused) {
      CHECK(refused.code() == "E0312");
      seen = refused.what();
    }
    CHECK((seen == "") == (std::string(one.what) == "nothing"));
  }
}

TEST_CASE("run = replay: each shipped verification as a plan, with traces of all ranks") {
  int compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator("scenarios")) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("verify-") || !name.ends_with(".json")) continue;
    INFO(name);
    Scenario scenario = load_scenario(
        entry.path(), {"execution.tensors=meta", "execution.fold=off", "output.trace=trace.json"});
    scenario.output.trace_ranks.clear();
    for (std::int64_t rank = 0; rank < scenario.system.ranks; ++rank) {
      scenario.output.trace_ranks.push_back(rank);
    }
    CHECK(difference_of(scenario) == "");
    ++compared;
  }
  CHECK(compared > 60);
}

TEST_CASE("run = replay: nodes with worse links, pods and shared cards") {
  using Overrides = std::vector<std::string>;
  const Overrides pods = {"system.nodes=4",          "system.gpus_per_node=4",
                          "system.nodes_per_pod=3",  "system.oversubscription=10",
                          "parallelism.tp=8",        "parallelism.dp_shard=2",
                          "parallelism.zero_stage=1"};
  const Overrides cards = {"system.nics_per_node=4", "parallelism.tp=2", "parallelism.dp_shard=32"};
  for (const Overrides& more :
       {Overrides{R"(faults.slow_links=[{"node": 0, "bandwidth_factor": 0.5}])"},
        Overrides{R"(faults.slow_links=[{"node": 1, "bandwidth_factor": 0.5}])"}, pods, cards}) {
    Overrides overrides = {"execution.fold=off", "training.global_batch_size=64",
                           "model.seq_len=1024"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    INFO(more.front());
    const Scenario scenario = load_scenario("scenarios/quickstart.json", overrides);
    CHECK(difference_of(scenario) == "");
    Scenario folded = scenario;
    folded.execution.fold = "auto";
    CHECK(executed(folded, "replay").result.number(metric::kStepTimeS) ==
          executed(scenario, "replay").result.number(metric::kStepTimeS));
  }
}

// The host launches what a strategy does for a module's parameters, whether or not the module is a
// graph and is run.
TEST_CASE("run = replay: buckets reduced within graphs, and a host that is late") {
  const Scenario scenario =
      load_scenario_text(small_plan("llama"), "test.json",
                         {"parallelism.dp_replicate=2", "parallelism.zero_stage=2",
                          "parallelism.bucket_bytes=2000", "training.global_batch_size=64",
                          "system.cuda_graphs=attn,mlp", "system.host_us_per_kernel=30"});
  CHECK(difference_of(scenario) == "");
}

// Larger ones take minutes to run, so they are part of long runs.
TEST_CASE("run = replay: each shipped plan") {
  int compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator("scenarios")) {
    const std::string name = entry.path().filename();
    if (name.starts_with("verify-") || !name.ends_with(".json")) continue;
    if (name == "scenario.schema.json") continue;
    INFO(name);
    const Scenario scenario = load_scenario(entry.path(), {"execution.fold=off"});
    const std::int64_t most = long_run() ? 16384 : 256;
    if (scenario.system.ranks > most) continue;
    CHECK(difference_of(scenario) == "");
    ++compared;
  }
  CHECK(compared >= (long_run() ? 5 : 3));
}

TEST_CASE("nearly all small plans of any kind are replayed, the rest for known reasons") {
  int replayed = 0;
  int valid = 0;
  std::map<std::string, int> others;
  check_property(200, [&] {
    try {
      const Experiment experiment =
          compile(load_scenario_text(draw_faulty_plan().text(), "drawn.json"));
      const RankRecording recording = record_ranks(experiment, {}, nullptr);
      ++valid;
      if (recording.programs)
        ++replayed;
      else
        ++others[recording.obstacle];
    } catch (const Error&) {
      return;  // Its fields do not fit together.
    }
  });
  for (const auto& [reason, count] : others) UNSCOPED_INFO(count << " because " << reason);
  CHECK(valid >= 100);
  CHECK(replayed >= 0.95 * valid);
}

TEST_CASE("property: run = replay for small plans of any kind") {
  int compared = 0;
  check_property(100, [&] {
    const DrawnScenario drawn = draw_faulty_plan();
    std::optional<Scenario> scenario;
    try {
      scenario = load_scenario_text(drawn.text(), "drawn.json");
      [[maybe_unused]] const RunOutcome run = executed(*scenario, "run");
    } catch (const Error&) {
      return;  // Its fields do not fit together.
    }
    const std::string difference = difference_of(*scenario);
    if (!difference.empty()) RC_FAIL(difference + "\n" + drawn.text());
    ++compared;
  });
  CHECK(compared >= 50);
}

}  // namespace shardsim::test

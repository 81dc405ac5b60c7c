#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include <catch2/catch.hpp>

#include "tests/detail/detail_fixture.hpp"

namespace shardsim::test {

namespace {

bool is_whole(const DetailedRun& run) {
  return std::none_of(run.detail.notes.begin(), run.detail.notes.end(),
                      [](const auto& note) { return note.find("coarsely") != std::string::npos; });
}

}  // namespace

TEST_CASE("bars of the compute stream are what the rank computed; streams do one thing at a time") {
  for (const DetailedRun& run : detailed_runs()) {
    INFO(run.name);
    REQUIRE(is_whole(run));
    std::set<std::int64_t> computing;
    for (const GanttRow& row : run.detail.schedule.rows) {
      INFO("stage " << row.stage << " " << row.track);
      std::int64_t busy = 0;
      // Operations begun in the step before are waited for in this one.
      std::int64_t end = std::numeric_limits<std::int64_t>::min();
      for (const GanttBar& bar : row.bars) {
        busy += picoseconds(bar.end_s) - picoseconds(bar.begin_s);
        CHECK(picoseconds(bar.begin_s) >= end);
        end = picoseconds(bar.end_s);
        REQUIRE(bar.name < run.detail.schedule.names.size());
      }
      if (row.track != "compute") continue;
      computing.insert(row.stage);
      const StageTime& stage = run.detail.stages.at(static_cast<std::size_t>(row.stage));
      CHECK(row.rank == stage.rank);
      CHECK(busy == picoseconds(stage.compute_s));
    }
    CHECK(computing.size() == run.detail.stages.size());
  }
}

TEST_CASE("each stage runs forward and backward of every microbatch once in each of its chunks") {
  for (const char* name : {"gpt-tp2-pp2-dp2-zero1", "gpt-pp4-zb-v", "gpt-pp4-1f1b",
                           "llama-tp2-pp2-dp2-interleaved", "llama-pp2-dp2-dualpipe-v"}) {
    const DetailedRun run = detailed(std::string("scenarios/verify-") + name + ".json");
    INFO(name);
    const auto microbatches = static_cast<std::size_t>(run.scenario.training.num_microbatches);
    for (const GanttRow& row : run.detail.schedule.rows) {
      if (row.track != "compute") continue;
      std::map<std::string, std::set<std::pair<std::int64_t, std::int64_t>>> done;
      std::set<std::int64_t> chunks;
      for (const GanttBar& bar : row.bars) {
        done[run.detail.schedule.names[bar.name]].insert({bar.chunk, bar.microbatch});
        chunks.insert(bar.chunk);
      }
      CHECK(done["forward"].size() == microbatches * chunks.size());
      CHECK(done["backward"].size() + done["input grad"].size() == microbatches * chunks.size());
      CHECK(done["weight grad"].size() == done["input grad"].size());
      CHECK(done["optimizer"].size() == 1);
      CHECK(done["forward"].count({0, -1}) == 0);
    }
  }
}

TEST_CASE("a message between stages is of the microbatch it carries") {
  const DetailedRun run = detailed("scenarios/verify-gpt-pp4-1f1b.json");
  std::map<std::string, std::set<std::int64_t>> carried;
  for (const GanttRow& row : run.detail.schedule.rows) {
    if (row.stage != 1 || row.track.rfind("pp_forward", 0) != 0) continue;
    for (const GanttBar& bar : row.bars) {
      carried[run.detail.schedule.names[bar.name]].insert(bar.microbatch);
    }
  }
  std::set<std::int64_t> all;
  for (std::int64_t m = 0; m < run.scenario.training.num_microbatches; ++m) all.insert(m);
  CHECK(carried["send"] == all);
  CHECK(carried["recv"] == all);
}

}  // namespace shardsim::test

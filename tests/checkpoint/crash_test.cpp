#include <string>
#include <vector>

#include "tests/checkpoint/memory_file_system.hpp"
#include "tests/checkpoint/sample_state.hpp"
#include "tests/property/check_property.hpp"

// The machine stops at every call of a save, once for each call, and comes up again with all, none
// or some of what was not yet on the medium.
namespace shardsim::test {
namespace {

struct Crash {
  const char* name;
  std::vector<std::int64_t> before;  // Steps saved before, in this order.
  std::int64_t old_state;            // make_sample of the state to be found again,
  std::int64_t new_step;             // and of the save that is stopped, with its state.
  std::int64_t new_state;
};

const std::vector<Crash> kCrashes = {
    {"the second save", {1}, 1, 2, 2},
    {"a save that removes the oldest of three", {1, 2}, 2, 3, 3},
    {"a step that is saved again with another state", {1, 2}, 2, 2, 7},
    {"a step that is saved again with the same state", {1, 2}, 2, 2, 2},
};

std::unique_ptr<MemoryFileSystem> with_saves(const Crash& crash) {
  auto files = std::make_unique<MemoryFileSystem>();
  for (const std::int64_t step : crash.before) {
    const SampleState state = make_sample(step);
    REQUIRE(save(*files, {"/run", step}, state.ranks, state.scalars).ok());
  }
  return files;
}

// Whether the newest checkpoint is the old or the new state. Fails if it is neither, or if anything
// that looks like a checkpoint is none.
bool finds_new_state(MemoryFileSystem& files, const Crash& crash) {
  LatestCheckpoint latest = find_latest(files, "/run");
  CHECK(latest.skipped.empty());
  const bool is_old = holds(latest.reader, make_sample(crash.old_state));
  const bool is_new = holds(latest.reader, make_sample(crash.new_state));
  CHECK((is_old || is_new));
  return is_new;
}

// A later save must work, keep two checkpoints, and leave nothing else.
void check_next_save(MemoryFileSystem& files) {
  const SampleState state = make_sample(4);
  REQUIRE(save(files, {"/run", 4}, state.ranks, state.scalars).ok());
  LatestCheckpoint latest = find_latest(files, "/run");
  CHECK(holds(latest.reader, state));
  CHECK(files.list("/run").size() == 2);
  CHECK(files.all_files().size() == 8);  // Each has three ranks and a manifest.
}

struct Tally {
  int old_states = 0;
  int new_states = 0;
};

void stop_at(const Crash& crash, const MemoryFileSystem& before, std::int64_t call,
             Survival survival, std::uint64_t seed, Tally& tally) {
  INFO(crash.name << ", call " << call << ", survival " << static_cast<int>(survival) << ", seed "
                  << seed);
  const std::unique_ptr<MemoryFileSystem> files = before.copy();
  files->stop_at = call;
  const SampleState state = make_sample(crash.new_state);
  REQUIRE_THROWS_AS(save(*files, {"/run", crash.new_step}, state.ranks, state.scalars),
                    MachineStopped);
  files->restart(survival, seed);
  const bool is_new = finds_new_state(*files, crash);
  ++(is_new ? tally.new_states : tally.old_states);
  if (!is_new) {  // Nothing is given up before there is something better.
    for (const std::int64_t step : crash.before) {
      CheckpointReader reader(*files, {"/run", step});
      CHECK(holds(reader, make_sample(step)));
    }
  }
  check_next_save(*files);
}

TEST_CASE("P50: a save stopped at any call leaves the old state or the new one") {
  const std::uint64_t seeds = long_run() ? 100 : 6;
  for (const Crash& crash : kCrashes) {
    const std::unique_ptr<MemoryFileSystem> before = with_saves(crash);
    const std::unique_ptr<MemoryFileSystem> whole = before->copy();
    const SampleState state = make_sample(crash.new_state);
    REQUIRE(save(*whole, {"/run", crash.new_step}, state.ranks, state.scalars).ok());
    REQUIRE(whole->calls > 40);
    Tally tally;
    for (std::int64_t call = 1; call <= whole->calls; ++call) {
      stop_at(crash, *before, call, Survival::nothing, 0, tally);
      stop_at(crash, *before, call, Survival::everything, 0, tally);
      for (std::uint64_t seed = 0; seed < seeds; ++seed) {
        stop_at(crash, *before, call, Survival::some, seed, tally);
      }
    }
    INFO(crash.name);
    CHECK(tally.new_states > 0);
    // Both are the same in the last case.
    CHECK((tally.old_states > 0) == (crash.old_state != crash.new_state));
  }
}

TEST_CASE("P50: a save that has returned survives a power failure") {
  for (const Crash& crash : kCrashes) {
    INFO(crash.name);
    const std::unique_ptr<MemoryFileSystem> files = with_saves(crash);
    const SampleState state = make_sample(crash.new_state);
    REQUIRE(save(*files, {"/run", crash.new_step}, state.ranks, state.scalars).ok());
    files->restart(Survival::nothing);
    CHECK(finds_new_state(*files, crash));
  }
}

TEST_CASE("P50: the first save leaves no checkpoint or a whole one") {
  const SampleState state = make_sample(1);
  MemoryFileSystem whole;
  REQUIRE(save(whole, {"/run", 1}, state.ranks, state.scalars).ok());
  int found = 0;
  for (std::int64_t call = 1; call <= whole.calls; ++call) {
    for (const Survival survival : {Survival::nothing, Survival::everything}) {
      INFO("call " << call);
      MemoryFileSystem files;
      files.stop_at = call;
      REQUIRE_THROWS_AS(save(files, {"/run", 1}, state.ranks, state.scalars), MachineStopped);
      files.restart(survival);
      try {
        LatestCheckpoint latest = find_latest(files, "/run");
        CHECK(holds(latest.reader, state));
        ++found;
      } catch (const CheckpointError& error) {
        CHECK(error.code() == "E0801");
      }
    }
  }
  CHECK(found > 0);
}

}  // namespace
}  // namespace shardsim::test

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "strategies/checkpoint/load.hpp"

#include "tests/checkpoint/memory_file_system.hpp"
#include "tests/sharded_optimizer/fixture.hpp"

// save_model on ranks, stopped or failed at every call that any of them makes. The parts of a save
// have their own tests in tests/checkpoint; here ranks put them together.
namespace shardsim::test {

namespace {

// Two steps, of which the first is saved already.
struct Run {
  Setup setup;
  WholeState first;
  WholeState second;
  std::unique_ptr<MemoryFileSystem> saved;  // After the first step.
  std::int64_t calls = 0;                   // Calls that save the second.
};

void train_and_save(const Setup& setup, MemoryFileSystem& files, int steps) {
  on_ranks(setup, [&](ShardedOptimizer& optimizer) {
    for (int step = 0; step < steps; ++step) optimizer.step();
    optimizer.save_model(files, "/out");
  });
}

Run run_of(const Setup& setup) {
  Run run{.setup = setup,
          .first = train(setup, 1),
          .second = train(setup, 2),
          .saved = std::make_unique<MemoryFileSystem>()};
  train_and_save(setup, *run.saved, 1);
  const std::unique_ptr<MemoryFileSystem> whole = run.saved->copy();
  train_and_save(setup, *whole, 2);
  run.calls = whole->calls;
  return run;
}

// The newest state there is, as ranks load it. Fails if anything looks like a checkpoint and is
// none.
WholeState latest(const Run& run, MemoryFileSystem& files) {
  const LatestCheckpoint found = find_latest(files, "/out");
  CHECK(found.skipped.empty());
  const std::int64_t step = found.reader.step();
  WholeState whole;
  on_ranks(run.setup, [&](ShardedOptimizer& optimizer) {
    optimizer.load_model(files, {.directory = "/out", .step = step});
    add_to(whole, optimizer.serialize());
  });
  return whole;
}

std::vector<Setup> setups() {
  std::vector<Setup> all = {setup_of("fsdp", 3), setup_of("hybrid_sharded", 4, "gpt2")};
  all.back().choice = hybrid_sharded(2, 1, 2, 1);
  return all;
}

}  // namespace

TEST_CASE("P50: ranks stopped at any call of save_model leave the old state or the new one") {
  for (const Setup& setup : setups()) {
    const Run run = run_of(setup);
    REQUIRE(run.calls > 30);
    int old_states = 0;
    int new_states = 0;
    for (std::int64_t call = 1; call <= run.calls; ++call) {
      for (const Survival survival : {Survival::nothing, Survival::everything, Survival::some}) {
        INFO(setup.choice.name << ", call " << call << ", survival " << static_cast<int>(survival));
        const std::unique_ptr<MemoryFileSystem> files = run.saved->copy();
        files->stop_at = call;
        REQUIRE_THROWS_AS(train_and_save(setup, *files, 2), MachineStopped);
        files->restart(survival, static_cast<std::uint64_t>(call));
        const WholeState found = latest(run, *files);
        ++(found == run.second ? new_states : old_states);
        CHECK((found == run.first || found == run.second));
      }
    }
    CHECK(old_states > 0);
    CHECK(new_states > 0);
  }
}

TEST_CASE("P50: a call of save_model that fails is an error on all ranks; the old state stays") {
  for (const Setup& setup : setups()) {
    const Run run = run_of(setup);
    int errors = 0;
    for (std::int64_t call = 1; call <= run.calls; ++call) {
      INFO(setup.choice.name << ", call " << call);
      const std::unique_ptr<MemoryFileSystem> files = run.saved->copy();
      files->fail_at = call;
      files->fail_with = ENOSPC;
      std::vector<std::string> codes(static_cast<std::size_t>(setup.ranks));
      on_ranks(setup, [&](ShardedOptimizer& optimizer) {
        for (int step = 0; step < 2; ++step) optimizer.step();
        codes[static_cast<std::size_t>(optimizer.rank())] =
            code_of([&] { optimizer.save_model(*files, "/out"); });
      });
      CHECK(codes == std::vector<std::string>(codes.size(), codes.front()));
      const bool failed = codes.front() != "none";
      CHECK((!failed || codes.front() == "E0804"));
      errors += failed ? 1 : 0;
      files->fail_at = 0;
      const WholeState found = latest(run, *files);
      // A failure after the new state's manifest is named may leave it.
      CHECK((found == run.second || (failed && found == run.first)));
      // Where there is room again, the next save works and leaves nothing of the failed one.
      train_and_save(setup, *files, 2);
      CHECK(latest(run, *files) == run.second);
    }
    CHECK(errors > run.calls / 2);
  }
}

}  // namespace shardsim::test

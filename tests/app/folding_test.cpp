#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/app/folding_fixture.hpp"
#include "tests/sample.hpp"

namespace shardsim::test {
namespace {

using Overrides = std::vector<std::string>;

struct Layout {
  Overrides overrides;
  int run;  // Ranks that a folded plan runs; found once, so that a law about nothing shows.
  const char* family = "llama";
};

Overrides on(int nodes, Overrides more) {
  more.push_back("system.nodes=" + std::to_string(nodes));
  more.push_back("training.global_batch_size=" + std::to_string(64 * nodes));
  return more;
}

std::string words(const Overrides& overrides) {
  std::string text;
  for (const std::string& override : overrides) text += override + " ";
  return text;
}

void check_law(const Layout& layout) {
  INFO(layout.family << " " << words(layout.overrides));
  const std::string text = small_plan(layout.family);
  const auto each_by = [&](const std::string& engine) {
    Overrides overrides = layout.overrides;
    overrides.push_back("execution.engine=" + engine);
    return planned(text, overrides, "off");
  };
  const Result folded = planned(text, layout.overrides, "require");
  const Result replayed = each_by("replay");
  CHECK(difference(folded, replayed).empty());
  CHECK(num_run(folded) == layout.run);
  const Result ran = each_by("run");
  CHECK(difference(ran, replayed).empty());
  CHECK(*ran.find("trace_hash") == *replayed.find("trace_hash"));
}

std::string warning_of(const Overrides& overrides, const char* family = "llama") {
  const Result result = planned(small_plan(family), overrides, "auto");
  CHECK(num_run(result) == static_cast<int>(*result.number("ranks")));
  CHECK(difference(result, planned(small_plan(family), overrides, "off")).empty());
  const std::string start = "execution.fold is auto, but every rank was run: ";
  for (const std::string& warning : result.warnings) {
    if (warning.rfind(start, 0) == 0) return warning.substr(start.size());
  }
  return "no warning";
}

}  // namespace

TEST_CASE("a folded plan has the metrics of the plan in which every rank runs") {
  const Layout layouts[] = {
      {on(1, {}), 1},
      {on(2, {"parallelism.tp=2"}), 2},
      {on(2, {"parallelism.tp=2", "parallelism.pp=4"}), 8},
      {on(4, {"parallelism.tp=8", "parallelism.pp=2"}), 16, "gpt2"},
      {on(2, {"parallelism.rank_order=dp-tp-pp", "parallelism.tp=2"}), 2},
      {on(4, {"parallelism.pp=2", "parallelism.cp=2"}), 4},
      {on(2, {"parallelism.cp=4", "parallelism.cp_attention=ulysses", "parallelism.tp=2"}), 8},
      {on(2, {"execution.all_reduce_algorithm=tree"}), 1},
      {on(2, {"parallelism.pp=4", "execution.buffered_sends=true"}), 4},
      {on(2, {"parallelism.pp=2", "training.ignore_fraction=0.2"}), 2},
      {on(2, {"parallelism.zero_stage=1"}), 1},
      {on(2, {"parallelism.zero_stage=2", "parallelism.sync_every_microbatch=true"}), 1, "gpt2"},
      {on(2, {"parallelism.zero_stage=3"}), 1},
      {on(2, {"parallelism.zero_stage=3", "parallelism.offload_optimizer=true",
              "system.device.host_bandwidth_gb_per_s=20"}),
       1},
      {on(3, {"parallelism.zero_stage=1", "parallelism.pp=2"}), 2},
      {on(4, {"parallelism.zero_stage=1", "parallelism.tp=2", "parallelism.pp=2"}), 4},
  };
  for (const Layout& layout : layouts) check_law(layout);
}

TEST_CASE("shards that differ are run, those that are alike are folded") {
  const Overrides sequence = {"parallelism.zero_stage=1", "parallelism.tp=2",
                              "parallelism.sequence_parallel=true"};
  const auto with = [](Overrides overrides, const Overrides& more) {
    overrides.insert(overrides.end(), more.begin(), more.end());
    return overrides;
  };
  const Layout layouts[] = {
      // Norms lie in some shards only, and are summed over tensor-parallel ranks.
      {on(4, sequence), 2},
      {on(4, with(sequence, {"parallelism.pp=2"})), 4},
      {on(8, with(sequence, {"parallelism.zero_stage=3"})), 12, "gpt2"},
      {on(8, with(sequence, {"parallelism.bucket_bytes=40000", "parallelism.cp=2"})), 36},
      // The last shard of a chunk is partly padding, which replicas reduce.
      {on(2, {"parallelism.zero_stage=2", "parallelism.dp_replicate=2"}), 1},
      {on(4, {"parallelism.zero_stage=3", "parallelism.dp_replicate=2", "parallelism.pp=2"}), 2},
      // Tied embeddings are summed by pieces.
      {on(3, {"parallelism.zero_stage=1", "parallelism.pp=2", "model.tied_embeddings=true"}), 2},
      {on(4, {"parallelism.zero_stage=1", "parallelism.pp=2", "parallelism.tp=4",
              "model.tied_embeddings=true"}),
       16},
  };
  for (const Layout& layout : layouts) check_law(layout);
}

TEST_CASE("tensor-parallel ranks with equal parts are folded, too") {
  const std::string even = "model.vocab_size=56";
  const Layout layouts[] = {
      {on(1, {even, "parallelism.tp=8"}), 1},  // There is but one replica.
      {on(2, {even, "parallelism.tp=2", "parallelism.pp=4"}), 4},
      {on(4, {even, "parallelism.tp=8", "parallelism.pp=2"}), 2, "gpt2"},
      {on(2, {even, "parallelism.rank_order=dp-tp-pp", "parallelism.tp=2"}), 1},
      {on(2, {even, "parallelism.cp=2", "parallelism.tp=2", "parallelism.zero_stage=3"}), 2},
      {on(4, {even, "parallelism.zero_stage=1", "parallelism.tp=2",
              "parallelism.sequence_parallel=true"}),
       1},
      {on(4, {even, "parallelism.zero_stage=1", "parallelism.tp=2", "parallelism.pp=2",
              "model.tied_embeddings=true"}),
       2},
  };
  for (const Layout& layout : layouts) check_law(layout);
}

TEST_CASE("the law holds for every schedule") {
  for (const std::string schedule : {"gpipe", "1f1b", "interleaved_1f1b", "looped_bfs", "zb_h1",
                                     "zb_h2", "zb_v", "v_half", "v_min", "dualpipe_v"}) {
    Overrides overrides = {"parallelism.zero_stage=1", "parallelism.pp=2",
                           "parallelism.schedule=" + schedule};
    if (schedule == "interleaved_1f1b" || schedule == "looped_bfs") {
      overrides.emplace_back("parallelism.vpp=2");
    }
    check_law({on(2, overrides), 2});
  }
}

TEST_CASE("the law holds to 1,024 ranks") {
  if (in_sample("by tensors", 2)) {
    check_law({on(128, {"parallelism.tp=8", "parallelism.pp=2"}), 16});
  }
  if (in_sample("by shards", 2)) {
    check_law({on(128, {"parallelism.zero_stage=3", "parallelism.dp_replicate=4"}), 5});
  }
}

TEST_CASE("traced ranks that run may be traced") {
  const Overrides overrides = {"parallelism.tp=2", "output.trace=x.pftrace",
                               "output.trace_ranks=[0, 1]"};
  CHECK(num_run(planned(small_plan("llama"), overrides, "require")) == 2);
}

TEST_CASE("a plan that is not folded says why") {
  CHECK(warning_of({"parallelism.tp=8", "parallelism.pp=2"}) == "there is one replica");
  CHECK(warning_of({"model.num_experts=4"}) ==
        "routing (model.num_experts) sends each rank's tokens to other experts");
  CHECK(warning_of({"parallelism.data_parallel=elastic", "parallelism.elastic_members=[8, 4]"}) ==
        "members change from step to step (parallelism.elastic_members)");
  CHECK(warning_of({"parallelism.data_parallel=local_sgd", "parallelism.dp_replicate=4",
                    "parallelism.sync_period=2"}) ==
        "replicas train apart (parallelism.data_parallel)");
  CHECK(warning_of({"parallelism.data_parallel=async_sgd", "parallelism.max_staleness=1"}) ==
        "gradients are applied late (parallelism.max_staleness)");
  CHECK(warning_of({"parallelism.gradient_compression=int8"}) ==
        "gradients are compressed (parallelism.gradient_compression)");
  CHECK(warning_of({"output.trace=x.pftrace", "output.trace_ranks=[0, 9]"}) ==
        "rank 9 is traced (output.trace_ranks)");
  CHECK(
      warning_of({"system.gpus_per_node=6", "parallelism.tp=4", "training.global_batch_size=48"}) ==
      "replicas lie on nodes differently (system.gpus_per_node)");
  CHECK(warning_of({"system.nodes=1", "parallelism.zero_stage=1", "parallelism.tp=4",
                    "parallelism.sequence_parallel=true"}) ==
        "no two data ranks have shards alike (parallelism.zero_stage)");
}

TEST_CASE("what only a caller can add is an obstacle, too") {
  const Scenario scenario =
      load_scenario_text(small_plan("llama"), "test.json", {"execution.fold=auto"});
  RunHooks wrapped;
  wrapped.wrap_world = [](Communicator&) { return std::unique_ptr<Communicator>(); };
  CHECK(contains(run_scenario(scenario, wrapped).result.warnings.back(),
                 "something stands between the ranks and the network"));
  RunHooks replayed;
  const DecisionLog none(16);
  replayed.replay = &none;
  CHECK(contains(run_scenario(scenario, replayed).result.warnings.back(),
                 "replayed decisions are those of each rank"));
}

TEST_CASE("folded, a plan may have more ranks than can run") {
  const Result result =
      planned(small_plan("llama"), on(4096, {"parallelism.zero_stage=1"}), "auto");
  CHECK(*result.number("ranks") == 32768);
  CHECK(num_run(result) < 100);
  try {
    static_cast<void>(planned(
        small_plan("llama"),
        on(4096, {"output.trace=x.pftrace", "output.trace_ranks=[0, 9]", "execution.engine=run"}),
        "auto"));
    FAIL("it must be refused");
  } catch (const LimitError& error) {
    CHECK(error.code() == "E0311");
    CHECK(
        std::string(error.what()) ==
        "32768 of 32768 ranks would have to run, as rank 9 is traced (output.trace_ranks); at most "
        "16384 can");
  }
}

TEST_CASE("who requires folding is told why it cannot be") {
  try {
    static_cast<void>(
        planned(small_plan("llama"), {"parallelism.tp=8", "parallelism.pp=2"}, "require"));
    FAIL("it must be refused");
  } catch (const LimitError& error) {
    CHECK(error.code() == "E0310");
    CHECK(std::string(error.what()) == "execution.fold is \"require\", but there is one replica");
    CHECK(contains(error.fix(), "\"auto\""));
  }
}

TEST_CASE("real tensors are never folded") {
  const Result result = planned(small_plan("llama"),
                                {"execution.tensors=real", "system.nodes=1", "execution.steps=1",
                                 "model.num_layers=1", "training.global_batch_size=8"},
                                "auto");
  CHECK(num_run(result) == 8);
  CHECK(*result.number("oracle.passed") == 1.0);
}

}  // namespace shardsim::test

#include <algorithm>

#include <catch2/catch.hpp>

#include "scenarios/scenario_error.hpp"

#include "tests/scenarios/support.hpp"

// parallelism.data_parallel and gradient_compression: what goes together.
namespace shardsim::testing {
namespace {

using Changes = std::vector<std::string>;

Changes with(Changes changes, const Changes& more) {
  changes.insert(changes.end(), more.begin(), more.end());
  return changes;
}

const Changes kLocal = {"parallelism.data_parallel=local_sgd", "parallelism.dp_replicate=2",
                        "parallelism.sync_period=1"};
const Changes kLate = {"parallelism.data_parallel=async_sgd", "execution.steps=2"};
const Changes kElastic = {"parallelism.data_parallel=elastic", "parallelism.zero_stage=0"};
const Changes kTopK = {"parallelism.gradient_compression=top_k", "parallelism.zero_stage=0",
                       "parallelism.compression_ratio=0.01"};

// All refusals name the field, why, and what to do.
void check_refused(const Changes& changes, const std::string& pointer, const std::string& words) {
  const Problem problem = only_problem_of(valid_text(), changes);
  INFO(problem.message);
  CHECK(problem.pointer == "/parallelism/" + pointer);
  CHECK(problem.message.find(words) != std::string::npos);
  CHECK_FALSE(problem.help.empty());
}

}  // namespace

TEST_CASE("without a choice data parallelism is synchronous, and all ranks take part") {
  const ParallelismSpec plain = loaded(valid_text()).parallelism;
  CHECK(plain.data_parallel == DataParallelKind::synchronous);
  CHECK_FALSE(plain.changes_algorithm());
  CHECK(plain.elastic_members == std::vector<std::int64_t>{8});
}

TEST_CASE("replicas train apart along dp_replicate, whatever is within one") {
  for (const char* stage : {"0", "1", "2", "3"}) {
    const Changes zero = {std::string("parallelism.zero_stage=") + stage};
    CHECK(loaded(valid_text(), with(kLocal, zero)).parallelism.trains_apart());
  }
  CHECK(loaded(valid_text(), with(kLocal, {"parallelism.tp=2", "parallelism.pp=2"}))
            .parallelism.trains_apart());
  check_refused({"parallelism.data_parallel=diloco"}, "data_parallel", "dp_replicate is 1");
}

TEST_CASE("compression is that of plain data parallelism") {
  CHECK(loaded(valid_text(), kTopK).parallelism.compresses());
  for (const char* more : {"parallelism.zero_stage=1", "parallelism.tp=2", "parallelism.pp=2"}) {
    check_refused(with(kTopK, {more}), "gradient_compression", "plain data parallelism");
  }
  check_refused(with(kTopK, kLate), "gradient_compression", "combined");
}

TEST_CASE("late gradients are whole ones") {
  CHECK(loaded(valid_text(), kLate).parallelism.max_staleness == 1);
  check_refused(with(kLate, {"parallelism.zero_stage=2"}), "data_parallel", "zero_stage 2");
}

TEST_CASE("late gradients are applied within the run") {
  const Changes later = with(kLate, {"parallelism.max_staleness=4"});
  CHECK(loaded(valid_text(), with(later, {"execution.steps=5"})).warnings.empty());
  const Problem problem = only_problem_of(valid_text(), with(later, {"execution.steps=4"}));
  CHECK(problem.code == "E0208");
  CHECK(problem.pointer == "/execution/steps");
  CHECK(problem.help == "run 5 steps or more");
}

TEST_CASE("a plan that ends no period is told that its times are without averaging") {
  const Changes three = with(kLocal, {"parallelism.sync_period=3"});
  const Scenario partial = loaded(valid_text(), with(three, {"execution.steps=4"}));
  REQUIRE(partial.warnings.size() == 1);
  CHECK(partial.warnings[0].find("ends no period of parallelism.sync_period (3)") !=
        std::string::npos);
  CHECK(loaded(valid_text(), with(three, {"execution.steps=6"})).warnings.empty());
}

TEST_CASE("top-k that saves nothing is told so, with what it sends instead") {
  // 8 ranks, fp64: 7 x 0.25 x 12 bytes against the 2 x 7 / 8 x 8 of an all_reduce.
  const Scenario even = loaded(valid_text(), with(kTopK, {"parallelism.compression_ratio=0.25"}));
  REQUIRE(even.warnings.size() == 1);
  CHECK(even.warnings[0].find("are 1.5 times the bytes of whole gradients") != std::string::npos);
  CHECK(loaded(valid_text(), with(kTopK, {"parallelism.compression_ratio=0.16"})).warnings.empty());
}

TEST_CASE("experts are trained synchronously") {
  const Changes experts = {"model.family=llama", "model.num_experts=4"};
  for (const Changes& choice : {kLocal, kLate, kElastic, kTopK}) {
    try {
      (void)loaded(valid_text(), with(choice, experts));
      FAIL_CHECK("not refused");
    } catch (const ScenarioError& error) {
      const bool is_named =
          std::any_of(error.problems().begin(), error.problems().end(), [](const Problem& problem) {
            return problem.code == "E0206" && problem.message.find("experts") != std::string::npos;
          });
      CHECK(is_named);
    }
  }
}

TEST_CASE("members keep to the ranks, the microbatches and the bounds") {
  const Changes members = {"parallelism.elastic_members=[8,3,5]"};
  CHECK(loaded(valid_text(), with(kElastic, members)).parallelism.elastic_members.size() == 3);
  check_refused(with(kElastic, {"parallelism.elastic_members=[8,9]"}), "elastic_members",
                "9 members");
  check_refused(with(with(kElastic, members), {"parallelism.elastic_min=4"}), "elastic_members",
                "elastic_min is 4");
  check_refused(with(with(kElastic, members), {"parallelism.elastic_max=7"}), "elastic_members",
                "elastic_max 7");
  check_refused(with(kElastic, {"parallelism.zero_stage=1"}), "data_parallel", "zero_stage 1");
  check_refused(with(kElastic, {"parallelism.tp=2"}), "data_parallel", "any other axis");
  check_refused(with(kElastic, {"parallelism.dp_replicate=2"}), "data_parallel", "any other axis");
}

TEST_CASE("what changes the algorithm is verified in fp64, and planned in any precision") {
  const std::string peaks = "system.device.peak_tflops.bf16=100";
  for (const Changes& choice : {kLocal, kLate, kElastic, kTopK}) {
    const Changes narrow = with(choice, {peaks, "training.precision=bf16"});
    CHECK(loaded(valid_text(), narrow).warnings.empty());
    const Problem problem = only_problem_of(valid_text(), with(narrow, {"execution.tensors=real"}));
    CHECK(problem.message.find("fp64 only") != std::string::npos);
  }
}

TEST_CASE("what changes the algorithm neither offloads nor scales the loss") {
  const std::string link = "system.device.host_bandwidth_gb_per_s=30";
  const std::string peaks = "system.device.peak_tflops.fp16=100";
  for (const Changes& choice : {kLocal, kLate, kElastic, kTopK}) {
    const Problem offloaded =
        only_problem_of(valid_text(), with(choice, {link, "parallelism.offload_optimizer=true"}));
    CHECK(offloaded.message.find("offloaded") != std::string::npos);
    const Problem scaled =
        only_problem_of(valid_text(), with(choice, {peaks, "training.precision=fp16"}));
    CHECK(scaled.message.find("loss scale") != std::string::npos);
  }
}

}  // namespace shardsim::testing

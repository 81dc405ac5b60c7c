#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "tests/app/folding_fixture.hpp"
#include "tests/property/check_property.hpp"

// Small plans of any layout: folding them changes nothing, or is refused.
namespace shardsim::test {
namespace {

template <class... Values>
std::string one_of(const std::string& field, Values... values) {
  return field + "=" + *rc::gen::element<std::string>(values...);
}

std::vector<std::string> draw_plan() {
  const int nodes = *rc::gen::inRange(1, 4);
  // Groups straddle nodes where gpus_per_node has a factor of three.
  std::vector<std::string> overrides = {
      "system.nodes=" + std::to_string(2 * nodes),
      one_of("system.gpus_per_node", "4", "6", "8"),
      one_of("parallelism.tp", "1", "2", "4"),
      one_of("parallelism.pp", "1", "2", "4"),
      one_of("parallelism.cp", "1", "1", "2"),
      one_of("parallelism.dp_replicate", "1", "1", "2"),
      one_of("parallelism.zero_stage", "0", "1", "2", "3"),
      one_of("parallelism.rank_order", "tp-dp-pp", "dp-tp-pp"),
      one_of("parallelism.sequence_parallel", "false", "true"),
      one_of("parallelism.overlap_grad_reduce", "false", "true"),
      one_of("execution.all_reduce_algorithm", "automatic", "ring", "tree"),
      one_of("model.tied_embeddings", "false", "true"),
      one_of("training.recompute", "none", "full"),
      one_of("training.ignore_fraction", "0", "0.2"),
      "model.vocab_size=" + std::to_string(*rc::gen::inRange(40, 60)),
      "parallelism.bucket_bytes=" + std::to_string(*rc::gen::inRange(1000, 40000)),
      "training.global_batch_size=144"};
  return overrides;
}

}  // namespace

TEST_CASE("property: folding changes no metric of any plan that can be folded") {
  int folded = 0;
  int uneven = 0;
  check_property(60, [&] {
    const std::string text = small_plan(*rc::gen::element<std::string>("llama", "gpt2"));
    const std::vector<std::string> overrides = draw_plan();
    Result whole;
    try {
      whole = planned(text, overrides, "off");
    } catch (const Error&) {
      return;  // Axes that do not multiply to the number of ranks.
    }
    const Result result = planned(text, overrides, "auto");
    RC_ASSERT(difference(result, whole) == "");
    const int ranks = static_cast<int>(*whole.number("ranks"));
    if (num_run(result) < ranks) ++folded;
    if (num_run(result) < ranks &&
        result.scenario_json.find("\"zero_stage\": 0") == std::string::npos) {
      ++uneven;
    }
  });
  // Or the law would be about nothing.
  CHECK(folded >= 10);
  CHECK(uneven >= 5);
}

}  // namespace shardsim::test

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"
#include "scenarios/scenario_error.hpp"

#include "tests/scenarios/support.hpp"

// parallelism.cp and the form of attention that goes with it. The model has 4 heads and 2 key and
// value heads; the machine 2 nodes of 4.
namespace shardsim::testing {
namespace {

const std::string kSeqLen = "model.seq_len=48";

std::vector<std::string> with_long_samples(std::vector<std::string> overrides) {
  overrides.insert(overrides.begin(), {kSeqLen, "training.global_batch_size=32"});
  return overrides;
}
Problem context_refusal(const std::vector<std::string>& overrides) {
  return only_problem_of(valid_text(), with_long_samples(overrides));
}
ParallelismSpec layout(const std::vector<std::string>& overrides) {
  return loaded(valid_text(), with_long_samples(overrides)).parallelism;
}

}  // namespace

TEST_CASE("context-parallel ranks are taken from those of data parallelism") {
  const ParallelismSpec p = layout({"parallelism.cp=4"});
  CHECK(p.cp == 4);
  CHECK(p.dp_shard == 2);
  CHECK(p.data_parallel_size() == 2);
  CHECK(p.gradient_ranks() == 8);
  CHECK(p.cp_attention == ContextAttention::ring);
  CHECK(p.cp_ulysses_degree == 1);
  CHECK(layout({}).cp_ulysses_degree == 1);
}

TEST_CASE("samples are cut into twice as many runs as there are ranks, or cp is refused") {
  const Problem problem = only_problem_of(valid_text(), {"parallelism.cp=2", "model.seq_len=18"});
  CHECK(problem.code == "E0203");
  CHECK(problem.pointer == "/parallelism/cp");
  CHECK(problem.message.find("4 equal runs") != std::string::npos);
  CHECK(problem.help == "use a seq_len of 16");
  const Problem shorter = only_problem_of(valid_text(), {"parallelism.cp=8", "model.seq_len=9"});
  CHECK(shorter.help == "use a smaller cp or a longer seq_len");
}

TEST_CASE("heads are exchanged among ranks that divide them, or the form is refused") {
  CHECK(layout({"parallelism.cp=2", "parallelism.cp_attention=ulysses"}).cp_ulysses_degree == 2);
  const Problem many = context_refusal({"parallelism.cp=4", "parallelism.cp_attention=ulysses"});
  CHECK(many.code == "E0203");
  CHECK(many.pointer == "/parallelism/cp");
  CHECK(many.help ==
        "use \"ring\", \"all_gather\" or \"two_level\" for cp_attention, or a smaller cp");
  CHECK(many.message.find("the 2 key and value heads") != std::string::npos);
  const Problem cut =
      context_refusal({"parallelism.cp=2", "parallelism.tp=2", "parallelism.cp_attention=ulysses"});
  CHECK(cut.message.find("the 1 key and value heads of a tensor-parallel rank") !=
        std::string::npos);
  // Nor is there a group for two levels.
  CHECK(cut.help == "use \"ring\" or \"all_gather\" for cp_attention, or a smaller cp");
}

TEST_CASE("two levels take the largest group of a node that fits, or what is said") {
  const std::string form = "parallelism.cp_attention=two_level";
  CHECK(layout({"parallelism.cp=4", form}).cp_ulysses_degree == 2);
  CHECK(layout({"parallelism.cp=4", form, "model.num_query_groups=4"}).cp_ulysses_degree == 2);
  CHECK(layout({"parallelism.cp=8", form, "model.num_query_groups=4"}).cp_ulysses_degree == 4);
  CHECK(layout({"parallelism.cp=8", form, "model.num_query_groups=4",
                "parallelism.cp_ulysses_degree=2"})
            .cp_ulysses_degree == 2);
  CHECK(layout({"parallelism.cp=4", form, "parallelism.cp_ulysses_degree=1"}).cp_ulysses_degree ==
        1);
  const Problem uneven =
      context_refusal({"parallelism.cp=4", form, "parallelism.cp_ulysses_degree=3"});
  CHECK(uneven.code == "E0203");
  CHECK(uneven.pointer == "/parallelism/cp_ulysses_degree");
  CHECK(uneven.help == "try 1, 2, 4");
  CHECK(context_refusal({"parallelism.cp=8", form, "parallelism.cp_ulysses_degree=4"}).help ==
        "try 1, 2");
  const Problem none = context_refusal({"parallelism.cp=2", form});
  CHECK(none.code == "E0206");
  CHECK(none.pointer == "/parallelism/cp_attention");
  CHECK(none.help == "use \"ring\" or \"all_gather\", or say cp_ulysses_degree");
  // A degree above 1 would be refused.
  CHECK(context_refusal({"parallelism.cp=2", "parallelism.tp=2", form}).help ==
        "use \"ring\" or \"all_gather\"");
}

// A ring of four is four blocks for every rank and layer; of two levels, two.
TEST_CASE("blocks of rings count among the operations of a run") {
  const auto is_refused = [](const std::string& form, std::int64_t most) {
    LoadLimits limits;
    limits.max_operations = most;
    try {
      (void)load_scenario_text(
          valid_text(), "test.json",
          with_long_samples({"parallelism.cp=4", "parallelism.cp_attention=" + form}), limits);
    } catch (const ScenarioError& error) {
      CHECK(error.code() == "E0354");
      return true;
    }
    return false;
  };
  const Scenario s = loaded(valid_text(), with_long_samples({"parallelism.cp=4"}));
  const std::int64_t whole =
      s.system.ranks * s.model.num_layers * s.training.num_microbatches * s.execution.steps;
  CHECK_FALSE(is_refused("all_gather", whole));
  CHECK(is_refused("all_gather", whole - 1));
  CHECK_FALSE(is_refused("two_level", 2 * whole));
  CHECK(is_refused("two_level", 2 * whole - 1));
  CHECK_FALSE(is_refused("ring", 4 * whole));
  CHECK(is_refused("ring", 4 * whole - 1));
}

TEST_CASE("a perceptron has no positions to cut") {
  const std::string text = valid_text_with(
      "\"llama\", \"num_layers\": 2, \"hidden_size\": 24, \"ffn_hidden_size\": 40,\n    "
      "\"num_attention_heads\": 4, \"num_query_groups\": 2, \"vocab_size\": 53, \"seq_len\": 9",
      "\"mlp\", \"num_layers\": 2, \"hidden_size\": 24, \"vocab_size\": 5");
  const Problem problem = only_problem_of(text, {"parallelism.cp=2"});
  CHECK(problem.code == "E0206");
  CHECK(problem.pointer == "/parallelism/cp");
}

TEST_CASE("sequence parallelism divides the tokens of a context-parallel rank") {
  const std::vector<std::string> both = {"parallelism.cp=2", "parallelism.tp=2",
                                         "parallelism.sequence_parallel=true",
                                         "training.micro_batch_size=1"};
  CHECK(layout(both).sequence_parallel);
  // A rank has 2 of 4 positions, which 4 ranks do not divide; without cp they do.
  const std::vector<std::string> narrow = {"parallelism.tp=4", "model.num_query_groups=4",
                                           "parallelism.sequence_parallel=true",
                                           "training.micro_batch_size=1", "model.seq_len=4"};
  CHECK(layout(narrow).sequence_parallel);
  std::vector<std::string> cut = narrow;
  cut.emplace_back("parallelism.cp=2");
  const Problem problem = context_refusal(cut);
  CHECK(problem.pointer == "/parallelism/sequence_parallel");
  CHECK(problem.message.find("1 x 2 tokens of a cp rank") != std::string::npos);
}

}  // namespace shardsim::testing

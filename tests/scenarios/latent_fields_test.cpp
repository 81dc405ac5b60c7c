#include <string>

#include <catch2/catch.hpp>

#include "scenarios/enumerations.hpp"

#include "tests/scenarios/support.hpp"

// Fields of latent attention and of values: what follows from them, and what is refused.
namespace shardsim::testing {
namespace {

const std::string kHeads = R"("num_query_groups": 2,)";
const std::string kSizes = R"("qk_nope_head_dim": 4, "qk_rope_head_dim": 2, "value_head_dim": 5,)";

std::string with_latents(const std::string& more) {
  return valid_text_with(kHeads, R"("kv_lora_rank": 10, )" + kSizes + more);
}

// "E0243 /model/head_dim" of the only problem of latent attention with this, too.
std::string latent_refusal(const std::string& more) {
  const Problem problem = only_problem_of(with_latents(more));
  CHECK_FALSE(problem.help.empty());
  return problem.code + " " + problem.pointer;
}

}  // namespace

TEST_CASE("heads of latent attention have the sum of their parts, a key for each query") {
  const ModelSpec model = loaded(with_latents(R"("q_lora_rank": 7,)")).model;
  CHECK(model.head_dim == 6);
  CHECK(model.rotary_dim == 2);
  CHECK(model.value_head_dim == 5);
  CHECK(model.num_query_groups == 4);
  CHECK(model.q_lora_rank == 7);
  CHECK(loaded(with_latents("")).model.q_lora_rank == 0);
  // 4 heads need not divide the width then.
  const std::string narrow =
      replaced(with_latents(""), R"("hidden_size": 24)", R"("hidden_size": 22)");
  CHECK(loaded(narrow).model.head_dim == 6);
}

TEST_CASE("latent attention refuses what it does not have, at its place") {
  CHECK(latent_refusal(R"("head_dim": 6,)") == "E0243 /model/head_dim");
  CHECK(latent_refusal(R"("rotary_dim": 2,)") == "E0243 /model/rotary_dim");
  CHECK(latent_refusal(R"("num_query_groups": 2,)") == "E0243 /model/num_query_groups");
  CHECK(latent_refusal(R"("query_key_norm": "per_head",)") == "E0243 /model/query_key_norm");
  CHECK(latent_refusal(R"("query_key_value_bias": true,)") == "E0243 /model/query_key_value_bias");
  CHECK(latent_refusal(R"("attention_out_bias": true,)") == "E0243 /model/attention_out_bias");
  CHECK(latent_refusal(R"("attention_output_gate": true,)") ==
        "E0243 /model/attention_output_gate");
  CHECK(latent_refusal(R"("layers": [{}, {"sinks": true}],)") == "E0243 /model/layers/1/sinks");
  CHECK(problems_of(with_latents(R"("num_query_groups": 4,)")).empty());
  CHECK(only_problem_of(
            replaced(with_latents(""), R"("qk_rope_head_dim": 2)", R"("qk_rope_head_dim": 3)"))
            .code == "E0243");
}

TEST_CASE("a layer's part that latent attention is not beside is told once, in its words") {
  const auto said = [](const std::string& layer, const std::string& more) {
    const Problem problem =
        only_problem_of(with_latents(R"("layers": [{}, )" + layer + "]," + more));
    return problem.pointer + " " + problem.message;
  };
  CHECK(said(R"({"sinks": true})", "") == "/model/layers/1/sinks latent attention has no sinks");
  CHECK(said(R"({"num_attention_heads": 2})", "") ==
        "/model/layers/1 latent attention has the same heads in all layers");
  CHECK(said(R"({"sinks": true, "num_attention_heads": 2})", "") ==
        "/model/layers/1/sinks latent attention has no sinks");
  CHECK(said(R"({"mixer": "attention_mamba"})",
             R"("mamba_num_heads": 4, "mamba_head_dim": 8, "mamba_num_groups": 2,
                "mamba_state_size": 8,)") ==
        "/model/layers/1/mixer latent attention is not beside Mamba-2 in a layer");
}

TEST_CASE("latent attention misses each size that is not given") {
  const auto problems = problems_of(valid_text_with(kHeads, R"("kv_lora_rank": 10,)"));
  REQUIRE(problems.size() == 3);
  for (const Problem& problem : problems) CHECK(problem.code == "E0103");
}

TEST_CASE("values may have their own size in llama, and not in gpt2, which has no latents") {
  const ModelSpec model = loaded(valid_text_with(kHeads, R"("value_head_dim": 9,)")).model;
  CHECK(model.head_dim == 6);
  CHECK(model.value_head_dim == 9);
  CHECK(loaded(valid_text()).model.value_head_dim == 6);
  const std::string gpt2 =
      replaced(valid_text_with(kHeads, ""), R"("family": "llama")", R"("family": "gpt2")");
  const auto with = [&](const std::string& more) {
    return only_problem_of(replaced(gpt2, R"("vocab_size")", more + R"("vocab_size")"));
  };
  CHECK(problems_of(gpt2).empty());
  CHECK(with(R"("value_head_dim": 9, )").pointer == "/model/value_head_dim");
  CHECK(with(R"("value_head_dim": 9, )").code == "E0201");
  CHECK(with(R"("kv_lora_rank": 9, )").code == "E0243");
}

TEST_CASE("sizes of latents without a latent of keys have no effect, which is said") {
  const Scenario s = loaded(valid_text_with(kHeads, R"("q_lora_rank": 7,)"));
  CHECK(s.model.head_dim == 6);
  REQUIRE_FALSE(s.warnings.empty());
  CHECK(s.warnings.front().find("kv_lora_rank is more than 0") != std::string::npos);
}

}  // namespace shardsim::testing

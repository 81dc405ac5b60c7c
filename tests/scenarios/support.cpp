#include "tests/scenarios/support.hpp"

#include <fstream>
#include <iterator>

#include <catch2/catch.hpp>

namespace shardsim::testing {

std::string valid_text() {
  return R"({
  "schema_version": 1,
  "name": "a valid scenario",
  "model": {
    "family": "llama", "num_layers": 2, "hidden_size": 24, "ffn_hidden_size": 40,
    "num_attention_heads": 4, "num_query_groups": 2, "vocab_size": 53, "seq_len": 9
  },
  "system": {
    "nodes": 2, "gpus_per_node": 4,
    "intra_node": { "bandwidth_gb_per_s": 100, "latency_us": 2 },
    "inter_node": { "bandwidth_gb_per_s": 10, "latency_us": 5 },
    "device": {
      "memory_gib": 1, "memory_bandwidth_gb_per_s": 1000, "memory_efficiency": 0.8,
      "peak_tflops": { "fp64": 10 }, "matmul_efficiency": 0.7, "kernel_launch_us": 2
    }
  },
  "parallelism": { "zero_stage": 1 },
  "training": {
    "global_batch_size": 16, "micro_batch_size": 1, "precision": "fp64"
  }
}
)";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string valid_text_with(const std::string& from, const std::string& to) {
  return replaced(valid_text(), from, to);
}

std::string gpt_text() {
  return valid_text_with(
      "\"llama\", \"num_layers\": 2, \"hidden_size\": 24, \"ffn_hidden_size\": 40,\n    "
      "\"num_attention_heads\": 4, \"num_query_groups\": 2",
      "\"gpt2\", \"num_layers\": 2, \"hidden_size\": 24, \"num_attention_heads\": 3");
}

std::vector<Problem> problems_of(const std::string& text,
                                 const std::vector<std::string>& overrides) {
  try {
    load_scenario_text(text, "test.json", overrides);
  } catch (const ScenarioError& error) {
    return error.problems();
  }
  return {};
}

Problem only_problem_of(const std::string& text, const std::vector<std::string>& overrides) {
  const std::vector<Problem> problems = problems_of(text, overrides);
  for (const Problem& problem : problems) {
    UNSCOPED_INFO(render(problem));
  }
  REQUIRE(problems.size() == 1);
  return problems.front();
}

std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  INFO("reading " << path);
  REQUIRE(in);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

Scenario loaded(const std::string& text, const std::vector<std::string>& overrides) {
  return load_scenario_text(text, "test.json", overrides);
}

}  // namespace shardsim::testing

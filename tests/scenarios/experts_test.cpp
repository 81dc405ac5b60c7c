#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/scenarios/support.hpp"
#include "tests/temporary_folder.hpp"

// Fields about experts: what does not fit is refused by name, and the file of their popularity is
// read with place, cause and fix.
namespace shardsim::testing {
namespace {

const std::vector<std::string> kExperts = {"model.num_experts=8"};

std::vector<std::string> with_experts(std::vector<std::string> overrides) {
  overrides.insert(overrides.begin(), kExperts.begin(), kExperts.end());
  return overrides;
}

// "E0203 /parallelism/ep" of the only problem.
std::string expert_refusal(const std::vector<std::string>& overrides) {
  const Problem problem = only_problem_of(valid_text(), overrides);
  CHECK_FALSE(problem.help.empty());
  return problem.code + " " + problem.pointer;
}

}  // namespace

TEST_CASE("experts that do not fit model or layout are refused by name") {
  CHECK(loaded(valid_text(), kExperts).model.moe_ffn_hidden_size == 40);  // ffn_hidden_size
  CHECK(loaded(valid_text(), with_experts({"parallelism.ep=2"})).parallelism.ep == 2);
  CHECK(expert_refusal({"parallelism.ep=2"}) == "E0206 /parallelism/ep");
  CHECK(expert_refusal({"model.num_experts=3", "parallelism.ep=2"}) == "E0203 /parallelism/ep");
  CHECK(expert_refusal({"parallelism.etp=2"}) == "E0206 /parallelism/etp");
  CHECK(expert_refusal(with_experts({"parallelism.etp=4", "model.moe_ffn_hidden_size=42"})) ==
        "E0203 /parallelism/etp");
  CHECK(expert_refusal(with_experts({"parallelism.etp=16", "model.moe_ffn_hidden_size=48"})) ==
        "E0203 /parallelism/etp");
  CHECK(expert_refusal(with_experts({"parallelism.etp=2", "model.moe_expert_bias=true"})) ==
        "E0206 /parallelism/etp");
  CHECK(expert_refusal(with_experts({"parallelism.etp=2", "training.optimizer=muon"})) ==
        "E0206 /parallelism/etp");
  CHECK(loaded(valid_text(), with_experts({"parallelism.etp=2"})).parallelism.etp == 2);
  const auto per_node = [](std::vector<std::string> more) {
    more.emplace_back("parallelism.expert_dispatch=per_node");
    return with_experts(more);
  };
  constexpr const char* kDispatch = "/parallelism/expert_dispatch";
  CHECK(loaded(valid_text(), per_node({"parallelism.ep=2"})).parallelism.expert_dispatch ==
        ExpertDispatch::per_node);
  CHECK(expert_refusal(per_node({"parallelism.ep=2", "parallelism.etp=2"})) ==
        std::string("E0206 ") + kDispatch);
  CHECK(expert_refusal(per_node({"parallelism.ep=2", "model.moe_capacity_factor=1.5"})) ==
        std::string("E0206 ") + kDispatch);
  CHECK(expert_refusal(per_node(
            {"parallelism.ep=2", "model.moe_weight_on_input=true", "model.num_experts_per_token=1",
             "model.moe_router_normalised=false"})) == std::string("E0206 ") + kDispatch);
  CHECK(expert_refusal(per_node({"parallelism.ep=2", "parallelism.rank_order=dp-tp-pp"})) ==
        std::string("E0206 ") + kDispatch);
  // Three GPUs of a node, of which two share experts with one of the next.
  CHECK(expert_refusal(per_node({"parallelism.ep=2", "system.gpus_per_node=3", "system.nodes=2",
                                 "training.global_batch_size=12"})) ==
        std::string("E0203 ") + kDispatch);
  CHECK(expert_refusal(per_node({"parallelism.ep=2", "parallelism.expert_payload=blockwise"})) ==
        "E0203 /parallelism/expert_payload");
  // It regroups the ranks of a stage and replica.
  CHECK(expert_refusal({"model.num_experts=64", "parallelism.ep=64"}) == "E0203 /parallelism/ep");
  CHECK(expert_refusal(with_experts({"model.num_experts_per_token=9"})) ==
        "E0201 /model/num_experts_per_token");
  CHECK(expert_refusal(with_experts({"model.moe_router_num_groups=3"})) ==
        "E0201 /model/moe_router_num_groups");
  CHECK(expert_refusal(with_experts({"model.moe_router_num_groups=8"})) ==
        "E0201 /model/moe_router_group_topk");
  CHECK(expert_refusal(
            with_experts({"model.moe_weight_on_input=true", "model.num_experts_per_token=2"})) ==
        "E0201 /model/moe_weight_on_input");
  CHECK(expert_refusal(with_experts({"model.moe_shared_gate=true"})) ==
        "E0201 /model/moe_shared_gate");
  CHECK(expert_refusal(with_experts({"model.num_shared_experts=1", "model.moe_ffn_hidden_size=8",
                                     "model.moe_shared_ffn_hidden_size=9"})) ==
        "E0201 /model/moe_shared_ffn_hidden_size");
  CHECK(expert_refusal(with_experts({"model.first_dense_layers=2"})) ==
        "E0201 /model/first_dense_layers");
  CHECK(expert_refusal(with_experts({"parallelism.tp=2", "model.seq_len=8"})) ==
        "E0206 /parallelism/sequence_parallel");
  CHECK(expert_refusal(with_experts(
            {"parallelism.tp=2", "model.seq_len=8", "parallelism.sequence_parallel=true",
             "model.num_shared_experts=1", "model.moe_ffn_hidden_size=7"})) ==
        "E0203 /parallelism/tp");
  // A width that no layer has need not be divided.
  const auto odd_width = [](const char* dense) {
    return with_experts({"parallelism.tp=2", "model.seq_len=8",
                         "parallelism.sequence_parallel=true", "model.moe_ffn_hidden_size=8",
                         "model.ffn_hidden_size=41", dense});
  };
  CHECK(loaded(valid_text(), odd_width("model.first_dense_layers=0")).parallelism.tp == 2);
  CHECK(expert_refusal(odd_width("model.first_dense_layers=1")) == "E0203 /parallelism/tp");
  // Sizes that cannot be counted are refused by one limit or another.
  const std::vector<Problem> huge =
      problems_of(valid_text(), {"model.num_experts=16384", "model.moe_ffn_hidden_size=4194304",
                                 "model.num_layers=16384", "model.hidden_size=1048576"});
  CHECK(std::any_of(huge.begin(), huge.end(), [](const Problem& problem) {
    return problem.code == "E0353" && problem.pointer == "/model/num_experts";
  }));
  CHECK(expert_refusal(with_experts({"model.moe_routing=file"})) == "E0213 /model/moe_routing");
}

TEST_CASE("routing that will not be what was meant is warned about") {
  const Scenario lonely = loaded(valid_text(), with_experts({"model.num_experts_per_token=1"}));
  REQUIRE(lonely.warnings.size() == 1);
  CHECK(lonely.warnings[0].find("learns nothing") != std::string::npos);
  CHECK(loaded(valid_text(),
               with_experts({"model.num_experts_per_token=1", "model.moe_aux_loss_coeff=1"}))
            .warnings.empty());
  CHECK(loaded(valid_text(), with_experts({"execution.tensors=real", "training.precision=fp32",
                                           "system.device.peak_tflops.fp32=10"}))
            .warnings.empty());
}

TEST_CASE("fields about experts are in the resolved scenario of a model that has them") {
  CHECK(loaded(valid_text()).resolved_json.find("\"moe_") == std::string::npos);
  CHECK(loaded(valid_text(), kExperts).resolved_json.find("moe_routing") != std::string::npos);
}

TEST_CASE("a file of popularity is read, or refused with place, cause and fix") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/popularity.json";
  const auto problem_of = [&](const std::string& text) {
    std::ofstream(path) << text;
    const std::vector<Problem> problems = problems_of(
        valid_text(), with_experts({"model.moe_routing=file", "model.first_dense_layers=0",
                                    "model.moe_popularity_file=" + path}));
    if (problems.empty()) return std::string("none");
    CHECK(problems.front().file == path);
    return problems.front().code + " " + std::to_string(problems.front().line) + ":" +
           std::to_string(problems.front().column) + " " + problems.front().pointer;
  };
  CHECK(problem_of("[1, 2, 3, 4, 5, 6, 7, 0.5]") == "none");
  CHECK(problem_of("[[1,1,1,1,1,1,1,1], // of 2 layers\n [1,1,1,1,1,1,1,2]]") == "none");
  CHECK(problem_of("[1, 2]") == "E0213 1:1 ");
  CHECK(problem_of("{}") == "E0213 1:1 ");
  CHECK(problem_of("[]") == "E0213 1:1 ");
  CHECK(problem_of("[[1,1,1,1,1,1,1,1]]") == "E0213 1:1 ");
  CHECK(problem_of("[[1,1,1,1,1,1,1,1],\n  [1,1]]") == "E0213 2:3 /1");
  CHECK(problem_of("[1, 2, 3,\n 4, -5, 6, 7, 8]") == "E0213 2:5 /4");
  CHECK(problem_of("[1, 2, 3, 4, \"5\", 6, 7, 8]") == "E0213 1:14 /4");
  CHECK(problem_of("[1, 2, 3, 4, 1e300, 6, 7, 8]") == "E0213 1:14 /4");
  CHECK(problem_of("[0, 0, 0, 0, 0, 0, 0, 0]") == "E0213 1:1 ");
  CHECK(problem_of("[1, 2").rfind("E0002", 0) == 0);
  std::filesystem::remove(path);
  const std::vector<Problem> missing = problems_of(
      valid_text(), with_experts({"model.moe_routing=file", "model.moe_popularity_file=" + path}));
  REQUIRE(missing.size() == 1);
  CHECK(missing.front().code == "E0001");
}

}  // namespace shardsim::testing

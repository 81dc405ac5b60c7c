#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/strategies/layer_fixture.hpp"
#include "tests/strategies/model_fixture.hpp"
#include "tests/strategies/recording_runtime.hpp"

// Parts of blocks that the host launches as CUDA graphs: which operations are within.
namespace shardsim::test {
namespace {

struct GraphedPass {
  GraphedPass(ModelOptions options, const GraphModules& graphs) : runtime(true) {
    options.graphs = graphs;
    model = make_model(options);
    parameters = std::make_unique<WholeParameters>(*model, runtime, 5, options.dtype, DType::fp32);
    const Batch batch = model->make_batch(runtime, 1, 0, 2, 0.0);
    std::vector<Saved> saved(static_cast<std::size_t>(model->num_modules()));
    Tensor x;
    for (std::size_t module = 0; module < saved.size(); ++module) {
      x = model->forward(static_cast<int>(module), {runtime, *parameters}, x, batch, saved[module]);
    }
    loss = x.get(0);
    run_backward(*model, runtime, *parameters, batch, saved);
  }

  [[nodiscard]] std::int64_t launched(HostLaunch launch) const {
    return std::ranges::count(runtime.ops(), launch, &ComputeOp::launch);
  }
  [[nodiscard]] std::vector<std::string> names_of(HostLaunch launch) const {
    std::vector<std::string> names;
    for (const ComputeOp& op : runtime.ops()) {
      if (op.launch == launch) names.emplace_back(op.name);
    }
    return names;
  }

  RecordingRuntime runtime;
  std::unique_ptr<Model> model;
  std::unique_ptr<WholeParameters> parameters;
  double loss = 0.0;
};

bool says_name(const std::vector<std::string>& names, const std::string& part) {
  return std::ranges::any_of(
      names, [&](const std::string& name) { return name.find(part) != std::string::npos; });
}

}  // namespace

TEST_CASE("each module of each block is one graph forward and one backward") {
  struct Case {
    const char* model;
    GraphModules graphs;
    std::int64_t graphs_of_all_blocks;
  };
  const GraphModules both = {GraphModule::attn, GraphModule::mlp};
  const ModelOptions llama = small_model("llama", DType::fp64);
  const std::int64_t blocks = llama.num_layers;
  const std::vector<Case> cases = {{"llama", {}, 0},
                                   {"llama", {GraphModule::attn}, blocks},
                                   {"llama", {GraphModule::mlp}, blocks},
                                   {"llama", both, 2 * blocks},
                                   {"gpt2", both, 2 * small_model("gpt2", DType::fp64).num_layers},
                                   {"llama", {GraphModule::mamba, GraphModule::moe_router}, 0}};
  for (const Case& each : cases) {
    CAPTURE(each.model, each.graphs_of_all_blocks);
    const ModelOptions options = small_model(each.model, DType::fp64);
    const GraphedPass eager(options, {});
    const GraphedPass graphed(options, each.graphs);
    CHECK(graphed.loss == eager.loss);
    REQUIRE(graphed.runtime.ops().size() == eager.runtime.ops().size());
    CHECK(graphed.launched(HostLaunch::graph) == 2 * each.graphs_of_all_blocks);
    CHECK((graphed.launched(HostLaunch::within_graph) > 0) == (each.graphs_of_all_blocks > 0));
    for (std::size_t i = 0; i < eager.runtime.ops().size(); ++i) {
      CHECK(eager.runtime.ops()[i].launch == HostLaunch::each_kernel);
      CHECK(graphed.runtime.ops()[i].flops == eager.runtime.ops()[i].flops);
    }
  }
}

TEST_CASE("a graph of attention has its norm, its products and its sum, and no MLP") {
  const ModelOptions options = small_model("llama", DType::fp64);
  const GraphedPass graphed(options, {GraphModule::attn});
  CHECK(graphed.names_of(HostLaunch::graph).front().find("norm") != std::string::npos);
  const std::vector<std::string> within = graphed.names_of(HostLaunch::within_graph);
  const std::vector<std::string> outside = graphed.names_of(HostLaunch::each_kernel);
  for (const char* name : {"attention", "rotary", "add"}) {
    INFO(name);
    CHECK(says_name(within, name));
  }
  CHECK_FALSE(says_name(outside, "attention"));
  CHECK_FALSE(says_name(outside, "rotary"));
  CHECK_FALSE(says_name(within, "swiglu"));
  CHECK(says_name(outside, "swiglu"));
}

TEST_CASE("beside experts a graph has the router and its norm") {
  ModelOptions options = small_model("llama", DType::fp64);
  options.moe.num_experts = 4;
  options.moe.experts_per_token = 2;
  options.moe.ffn_hidden_size = 6;
  const GraphedPass graphed(options, {GraphModule::mlp, GraphModule::moe_router});
  CHECK(graphed.launched(HostLaunch::graph) == 2 * options.num_layers);
  const std::vector<std::string> within = graphed.names_of(HostLaunch::within_graph);
  CHECK(says_name(within, "router"));
  const std::vector<std::string> first = graphed.names_of(HostLaunch::graph);
  CHECK(first.front().find("norm") != std::string::npos);  // Forward; backward: the router's.
  for (const char* name : {"swiglu", "permute", "count_chosen", "attention"}) {
    INFO(name);
    CHECK_FALSE(says_name(within, name));
  }
}

}  // namespace shardsim::test

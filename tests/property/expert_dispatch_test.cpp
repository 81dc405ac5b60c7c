#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "strategies/model/expert_counts.hpp"

#include "scenarios/load.hpp"
#include "sim/experiment/experiment.hpp"
#include "sim/run/run.hpp"

#include "tests/property/check_property.hpp"
#include "tests/property/expert_layouts.hpp"

// P45, P46 and K8 for tokens that go once to each node: experts train as one device does, what
// travels is what routing says, and the trace is that of the plan.
namespace shardsim::test {
namespace {

constexpr const char* kFourShare = "scenarios/verify-llama-ep4-uniform.json";

// The last ones with experts that get nothing, or everything.
const std::vector<Overrides> kRoutingsOnNodes = {
    {"model.moe_routing=uniform"},
    {"model.moe_routing=learned"},
    {"model.moe_routing=learned", "model.moe_router_num_groups=4", "model.moe_router_group_topk=2",
     "model.num_experts_per_token=4"},
    {"model.moe_routing=skewed", "model.moe_skew=1", "model.num_experts_per_token=3"},
    {"model.moe_routing=skewed", "model.moe_skew=16", "model.num_experts_per_token=1"},
    {"model.moe_routing=file", "model.moe_popularity_file=scenarios/routing/eight-experts.json"}};

Overrides on_nodes(const Overrides& routing, int nodes, int gpus) {
  Overrides overrides = routing;
  overrides.emplace_back("parallelism.expert_dispatch=per_node");
  overrides.push_back(set("system.nodes", nodes));
  overrides.push_back(set("system.gpus_per_node", gpus));
  return overrides;
}

// Copies of tokens that cross to another rank in one forward of all layers and samples: to the rank
// with the sender's place on each node, and from there to others of the node.
std::int64_t copies_off_rank(const Scenario& scenario) {
  const MoeOptions moe = compile(scenario).options().model.moe;
  const ParallelismSpec& p = scenario.parallelism;
  const std::int64_t ranks = std::min(scenario.system.gpus_per_node, p.ep);
  const DeclaredRouting routing(moe, scenario.model.seq_len);
  std::int64_t copies = 0;
  for (std::int64_t sample = 0; sample < scenario.training.global_batch_size; ++sample) {
    const std::int64_t own = sample / scenario.training.micro_batch_size % p.dp_shard % p.ep;
    for (int layer = 0; layer < static_cast<int>(scenario.model.num_layers); ++layer) {
      for (std::int64_t position = 0; position < scenario.model.seq_len; ++position) {
        std::set<std::int64_t> nodes;
        std::set<std::int64_t> owners;
        for (std::int64_t slot = 0; slot < moe.experts_per_token; ++slot) {
          owners.insert(routing.expert_of(layer, position, slot) / (moe.num_experts / p.ep));
          nodes.insert(routing.expert_of(layer, position, slot) / (moe.num_experts / p.ep) / ranks);
        }
        for (const std::int64_t node : nodes) copies += node == own / ranks ? 0 : 1;
        for (const std::int64_t owner : owners) copies += owner % ranks == own % ranks ? 0 : 1;
      }
    }
  }
  return copies;
}

}  // namespace

// The oracle's bound is 1e-9: a token that counts twice, or a lost one, is 1e-2 and more.
TEST_CASE("P45, P46: experts train as one device where tokens go once to each node") {
  for (const Overrides& routing : kRoutingsOnNodes) {
    for (const auto& [nodes, gpus] : {std::pair{1, 4}, {2, 2}, {4, 1}}) {
      for (const std::int64_t zero : {0, 3}) {
        Overrides overrides = on_nodes(routing, nodes, gpus);
        overrides.push_back(set("parallelism.zero_stage", zero));
        overrides.emplace_back("execution.steps=2");
        const Result result = run_scenario(load_scenario(kFourShare, overrides)).result;
        CAPTURE(routing, nodes, gpus, zero);
        CHECK(result.exit_code == 0);
        CHECK(result.number("oracle.passed") == 1.0);
      }
    }
  }
}

// Megatron-Core since 2025: weights travel with the rows, and multiply activations.
TEST_CASE("P45, P46: experts train as one device where their weights multiply activations") {
  const std::vector<Overrides> ways = {
      {},
      {"parallelism.expert_dispatch=per_node", "system.nodes=2", "system.gpus_per_node=2"},
      {"parallelism.ep=2", "parallelism.etp=2"},
      {"model.moe_capacity_factor=0.75"},
      {"parallelism.ep=1"},
      {"training.recompute=selective", "training.recompute_modules=moe_act"},
      {"training.recompute=selective", "training.recompute_modules=moe",
       "parallelism.expert_dispatch=per_node"}};
  for (const Overrides& way : ways) {
    for (const char* routing : {"learned", "skewed"}) {
      Overrides overrides = way;
      overrides.emplace_back("system.device.kernels=a100-sxm");
      overrides.emplace_back("system.software=megatron-core-2025");
      overrides.push_back(std::string("model.moe_routing=") + routing);
      overrides.emplace_back("execution.steps=2");
      const RunOutcome outcome = run_scenario(load_scenario(kFourShare, overrides));
      CAPTURE(way, routing);
      CHECK(outcome.result.exit_code == 0);
      CHECK(outcome.result.number("oracle.passed") == 1.0);
      overrides.emplace_back("execution.tensors=meta");
      const Scenario meta = load_scenario(kFourShare, overrides);
      const DecisionLog* const record = outcome.decisions ? &*outcome.decisions : nullptr;
      const Result planned = run_scenario(meta, {.replay = record}).result;
      CHECK(*planned.find("trace_hash") == *outcome.result.find("trace_hash"));
    }
  }
}

TEST_CASE("K8: what is dispatched is a copy for each node, and for each rank of it") {
  for (const Overrides& routing : kRoutingsOnNodes) {
    for (const auto& [nodes, gpus] : {std::pair{1, 4}, {2, 2}, {4, 1}}) {
      Overrides overrides = on_nodes(routing, nodes, gpus);
      overrides.emplace_back("execution.steps=1");
      overrides.emplace_back("execution.tensors=meta");
      const Scenario scenario = load_scenario(kFourShare, overrides);
      if (scenario.model.moe_routing == RoutingKind::learned) continue;
      const Result result = run_scenario(scenario).result;
      CAPTURE(routing, nodes, gpus);
      // There and back, forward and backward, 8 bytes an element.
      const std::int64_t bytes = 4 * 8 * scenario.model.hidden_size * copies_off_rank(scenario);
      CHECK(bytes > 0);
      CHECK(result.number("comm.bytes_sent.by_axis.ep") == static_cast<double>(bytes));
    }
  }
}

// A tampered reference would be off by 2^-5 and more: elements have 3 binary digits.
TEST_CASE(
    "P45, K8: tokens in 8 bits train as one device that rounds them, in the bytes of a formula") {
  for (const auto& [payload, block, scale] : {std::tuple{"blockwise", 128, 4}, {"mxfp8", 32, 1}}) {
    for (const Overrides& routing : kRoutingsOnNodes) {
      Overrides overrides = on_nodes(routing, 2, 2);
      overrides.push_back(std::string("parallelism.expert_payload=") + payload);
      overrides.push_back(set("model.hidden_size", block));
      overrides.emplace_back("execution.steps=2");
      CAPTURE(payload, routing);
      const RunOutcome outcome = run_scenario(load_scenario(kFourShare, overrides));
      CHECK(outcome.result.exit_code == 0);
      CHECK(outcome.result.number("oracle.passed") == 1.0);
      overrides.emplace_back("execution.tensors=meta");
      const Scenario scenario = load_scenario(kFourShare, overrides);
      const DecisionLog* const record = outcome.decisions ? &*outcome.decisions : nullptr;
      const Result planned = run_scenario(scenario, {.replay = record}).result;
      CHECK(*planned.find("trace_hash") == *outcome.result.find("trace_hash"));
      if (scenario.model.moe_routing == RoutingKind::learned) continue;
      // To experts in 8 bits with scales, back in 8 bytes; forward and backward.
      const std::int64_t row = block + scale + 8 * block;
      const std::int64_t bytes = 2 * row * copies_off_rank(scenario);
      CHECK(planned.number("comm.bytes_sent.by_axis.ep") == static_cast<double>(bytes));
    }
  }
}

// With slow cards the bytes between nodes are nearly all that a dispatch costs.
TEST_CASE("K8: where cards are slow, a copy for each node is faster than one for each expert") {
  Overrides overrides = on_nodes({"model.moe_routing=uniform"}, 2, 2);
  overrides.emplace_back("model.num_experts_per_token=4");
  overrides.emplace_back("system.inter_node.bandwidth_gb_per_s=0.01");
  overrides.emplace_back("execution.tensors=meta");
  const auto step = [&](const char* dispatch) {
    Overrides own = overrides;
    own.push_back(std::string("parallelism.expert_dispatch=") + dispatch);
    return run_scenario(load_scenario(kFourShare, own)).result.number("step_time_s").value();
  };
  CHECK(step("per_node") < 0.8 * step("per_expert"));
}

TEST_CASE("P45: a dispatch by node has the same trace with data and without, in any layout") {
  check_property(12, [] {
    const auto& routing =
        *rc::gen::suchThat(rc::gen::elementOf(kRoutingsOnNodes),
                           [](const auto& r) { return r.front() != "model.moe_routing=learned"; });
    const int gpus = *rc::gen::element(1, 2, 4);
    const int tp = *rc::gen::element(1, 2);
    const int cp = *rc::gen::element(1, 2);
    const int pp = *rc::gen::element(1, 2);
    Overrides overrides = on_nodes(routing, 4 * tp * cp * pp / gpus, gpus);
    overrides.push_back(set("parallelism.tp", tp));
    if (tp > 1) overrides.emplace_back("parallelism.sequence_parallel=true");
    overrides.push_back(set("parallelism.cp", cp));
    overrides.push_back(set("parallelism.pp", pp));
    overrides.push_back(set("parallelism.ep", *rc::gen::element(2, 4, std::min(tp * cp * 4, 8))));
    overrides.push_back(set("parallelism.zero_stage", *rc::gen::inRange(0, 4)));
    overrides.push_back(set("model.seq_len", 8 * *rc::gen::inRange(1, 3)));
    overrides.push_back("training.recompute=" +
                        *rc::gen::element<std::string>("none", "selective", "full"));
    overrides.emplace_back("training.recompute_modules=moe");
    overrides.emplace_back("execution.steps=2");
    const Scenario real = load_scenario(kFourShare, overrides);
    overrides.emplace_back("execution.tensors=meta");
    const Scenario meta = load_scenario(kFourShare, overrides);
    const Result with_data = run_scenario(real).result;
    const Result without = run_scenario(meta).result;
    RC_ASSERT(with_data.exit_code == 0);
    for (const char* name : {"trace_hash", "moe.load_imbalance", "comm.bytes_sent.by_axis.ep",
                             "memory.peak_bytes.max"}) {
      const MetricValue* here = with_data.find(name);
      const MetricValue* there = without.find(name);
      RC_ASSERT(here != nullptr);
      RC_ASSERT(there != nullptr);
      RC_ASSERT(*here == *there);
    }
  });
}

}  // namespace shardsim::test

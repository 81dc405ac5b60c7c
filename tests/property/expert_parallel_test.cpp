#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "strategies/model/expert_counts.hpp"

#include "scenarios/load.hpp"
#include "sim/experiment/experiment.hpp"
#include "sim/run/run.hpp"

#include "tests/property/check_property.hpp"
#include "tests/property/expert_layouts.hpp"

// P45 and P46: whatever the routing, experts that are shared train as one device does; what travels
// is what routing says; and the trace is that of the plan.
namespace shardsim::test {
namespace {

constexpr const char* kUniformRouting = "scenarios/verify-llama-ep4-uniform.json";
// Sizes that every layout divides; the scenario's own are not round.
const Overrides kEvenExperts = {"model.hidden_size=24", "model.moe_ffn_hidden_size=16"};

Result result_of(const Overrides& overrides) {
  return run_scenario(load_evenly(kUniformRouting, kEvenExperts, overrides)).result;
}

// All routings there are, the last ones with experts that get nothing or everything.
const std::vector<Overrides> kRoutings = {
    {"model.moe_routing=uniform"},
    {"model.moe_routing=learned"},
    {"model.moe_routing=skewed", "model.moe_skew=1"},
    {"model.moe_routing=skewed", "model.moe_skew=16"},
    {"model.moe_routing=skewed", "model.moe_skew=16", "model.num_experts_per_token=1"},
    {"model.moe_routing=file", "model.moe_popularity_file=scenarios/routing/eight-experts.json"}};

// Routers and experts of today, each after the routing that it is drawn with.
const std::vector<Overrides> kRouters = {
    {},
    {"model.moe_router_score=sigmoid", "model.moe_router_bias_update_rate=0.05",
     "model.moe_router_scaling_factor=2.5"},
    {"model.moe_router_normalised=false", "model.moe_router_num_groups=2",
     "model.moe_expert_bias=true", "model.moe_router_logit_bias=true"},
    {"model.moe_z_loss_coeff=0.1", "model.num_shared_experts=0",
     "model.moe_shared_ffn_hidden_size=8", "model.moe_shared_gate=true"},
    {"model.num_experts_per_token=1", "model.moe_weight_on_input=true",
     "model.moe_router_score=sigmoid", "model.moe_router_normalised=false"}};

void append(Overrides& overrides, const Overrides& more) {
  overrides.insert(overrides.end(), more.begin(), more.end());
}

// Pairs of token and slot that go to another rank in one forward of all layers and samples.
std::int64_t pairs_off_rank(const Scenario& scenario) {
  const MoeOptions moe = compile(scenario).options().model.moe;
  const ParallelismSpec& p = scenario.parallelism;
  const DeclaredRouting routing(moe, scenario.model.seq_len);
  std::int64_t pairs = 0;
  for (std::int64_t sample = 0; sample < scenario.training.global_batch_size; ++sample) {
    const std::int64_t rank = sample / scenario.training.micro_batch_size % p.dp_shard;
    for (int layer = 0; layer < static_cast<int>(scenario.model.num_layers); ++layer) {
      for (std::int64_t position = 0; position < scenario.model.seq_len; ++position) {
        for (std::int64_t slot = 0; slot < moe.experts_per_token; ++slot) {
          const std::int64_t owner =
              routing.expert_of(layer, position, slot) / (moe.num_experts / p.ep);
          if (owner != rank / p.etp % p.ep) ++pairs;
        }
      }
    }
  }
  return pairs;
}

}  // namespace

// The oracle's bound is 1e-9: a factor of ep, or one lost token, is 1e-2 and more. Gradients of
// experts are held against the same reference for every ep, so they do not depend on it; so is the
// norm, by which every update is clipped.
TEST_CASE("P45, P46: experts train as one device for any routing and degree") {
  for (const Overrides& routing : kRoutings) {
    for (const std::int64_t ep : {1, 2, 4}) {
      for (const std::int64_t zero : {0, 1, 2, 3}) {
        Overrides overrides = routing;
        overrides.push_back(set("parallelism.ep", ep));
        overrides.push_back(set("parallelism.zero_stage", zero));
        overrides.emplace_back("execution.steps=2");
        const Result result = result_of(overrides);
        CAPTURE(routing, ep, zero);
        CHECK(result.exit_code == 0);
        CHECK(result.number("oracle.passed") == 1.0);
      }
    }
  }
}

// Every factorization of up to 16 ranks that shares experts, each with a stage, routing and
// recomputation of its own, in turn.
TEST_CASE("P47: experts train as one device under every layout of up to 16 ranks") {
  int number = 0;
  for (const std::int64_t pp : {1, 2}) {
    for (const std::int64_t tp : {1, 2, 4}) {
      for (const std::int64_t replicas : {1, 2}) {
        for (const std::int64_t shards : {1, 2, 3, 4}) {
          const std::int64_t ranks = pp * tp * replicas * shards;
          if (ranks > 16 || tp * shards == 1) continue;
          for (const std::int64_t ep : {2, 3, 4, 6, 12}) {
            if (tp * shards % ep != 0) continue;
            ++number;
            Overrides overrides = kRoutings[static_cast<std::size_t>(number) % 5];
            overrides.push_back(set("system.nodes", 1));
            overrides.push_back(set("system.gpus_per_node", ranks));
            overrides.push_back(set("parallelism.pp", pp));
            overrides.push_back(set("parallelism.tp", tp));
            if (tp > 1) overrides.emplace_back("parallelism.sequence_parallel=true");
            overrides.push_back(set("parallelism.dp_replicate", replicas));
            overrides.push_back(set("parallelism.ep", ep));
            overrides.push_back(set("parallelism.zero_stage", number % 4));
            overrides.push_back(set("model.num_experts", 12));
            overrides.push_back(set("model.num_query_groups", 4));
            overrides.push_back(set("model.seq_len", 8));
            overrides.push_back(set("model.num_shared_experts", number % 2));
            overrides.push_back(set("training.global_batch_size", 2 * replicas * shards));
            overrides.emplace_back(number % 3 == 0 ? "model.moe_capacity_factor=0.8"
                                                   : "model.moe_capacity_factor=0");
            append(overrides, kRouters[static_cast<std::size_t>(number / 2) % kRouters.size()]);
            overrides.emplace_back("execution.steps=1");
            const Result result = result_of(overrides);
            CAPTURE(pp, tp, replicas, shards, ep, number);
            CHECK(result.exit_code == 0);
          }
        }
      }
    }
  }
  CHECK(number > 40);
}

TEST_CASE("P46: the norm of the largest gradient counts experts, too") {
  for (const std::int64_t ep : {1, 2, 4}) {
    const Result result = result_of({set("parallelism.ep", ep), "training.grad_norm_type=inf",
                                     "training.max_grad_norm=0.001", "execution.steps=2"});
    CAPTURE(ep);
    CHECK(result.exit_code == 0);
  }
}

TEST_CASE("P45: what is dispatched is the pairs of token and expert on different ranks") {
  for (const Overrides& routing : kRoutings) {
    for (const std::int64_t ep : {1, 2, 4}) {
      Overrides overrides = routing;
      overrides.push_back(set("parallelism.ep", ep));
      overrides.emplace_back("execution.steps=1");
      overrides.emplace_back("execution.tensors=meta");
      const Scenario scenario = load_evenly(kUniformRouting, kEvenExperts, overrides);
      if (scenario.model.moe_routing == RoutingKind::learned) continue;
      const Result result = run_scenario(scenario).result;
      CAPTURE(routing, ep);
      // There and back, forward and backward, 8 bytes an element.
      const std::int64_t bytes = 4 * 8 * scenario.model.hidden_size * pairs_off_rank(scenario);
      CHECK(result.number("comm.bytes_sent.by_axis.ep") == static_cast<double>(bytes));
      CHECK((ep == 1) == (bytes == 0));
    }
  }
}

// Every row goes to the ranks with the other slices of its expert, and a sum of it comes back.
TEST_CASE("P45: rows are gathered by all slices of their experts, and their sums come home") {
  for (const Overrides& routing : kRoutings) {
    for (const auto& [ep, etp] : {std::pair{1, 2}, {2, 2}, {1, 4}}) {
      Overrides overrides = routing;
      overrides.push_back(set("parallelism.ep", ep));
      overrides.push_back(set("parallelism.etp", etp));
      overrides.emplace_back("execution.steps=1");
      overrides.emplace_back("execution.tensors=meta");
      const Scenario scenario = load_evenly(kUniformRouting, kEvenExperts, overrides);
      if (scenario.model.moe_routing == RoutingKind::learned) continue;
      const Result result = run_scenario(scenario).result;
      CAPTURE(routing, ep, etp);
      const ModelSpec& m = scenario.model;
      const std::int64_t pairs =
          scenario.training.global_batch_size * m.num_layers * m.seq_len * m.num_experts_per_token;
      const std::int64_t bytes =
          4 * 8 * m.hidden_size * (pairs_off_rank(scenario) + (etp - 1) * pairs);
      CHECK(result.number("comm.bytes_sent.by_axis.ep") == static_cast<double>(bytes));
    }
  }
}

TEST_CASE("P45: declared routing has the same trace with data and without") {
  check_property(12, [] {
    const auto& routing = *rc::gen::suchThat(rc::gen::elementOf(kRoutings), [](const auto& r) {
      return r.front() != "model.moe_routing=learned";
    });
    Overrides overrides = routing;
    const auto ep = *rc::gen::element<std::int64_t>(1, 2, 4);
    overrides.push_back(set("parallelism.ep", ep));
    overrides.push_back(set("parallelism.etp", ep == 4 ? 1 : *rc::gen::element<int>(1, 2)));
    overrides.push_back(set("parallelism.zero_stage", *rc::gen::inRange<std::int64_t>(0, 4)));
    overrides.push_back(set("model.seq_len", *rc::gen::inRange<std::int64_t>(2, 14)));
    overrides.push_back(set("model.num_shared_experts", *rc::gen::inRange<std::int64_t>(0, 3)));
    overrides.push_back("training.recompute=" +
                        *rc::gen::element<std::string>("none", "selective", "full"));
    overrides.push_back("model.moe_capacity_factor=" +
                        *rc::gen::element<std::string>("0", "0.5", "1.25"));
    append(overrides, *rc::gen::elementOf(kRouters));
    overrides.emplace_back("execution.steps=2");
    const Scenario real = load_evenly(kUniformRouting, kEvenExperts, overrides);
    overrides.emplace_back("execution.tensors=meta");
    const Scenario meta = load_evenly(kUniformRouting, kEvenExperts, overrides);
    const Result with_data = run_scenario(real).result;
    const Result without = run_scenario(meta).result;
    RC_ASSERT(with_data.exit_code == 0);
    for (const char* name : {"trace_hash", "moe.load_imbalance", "moe.dropped_tokens",
                             "comm.bytes_sent.by_axis.ep", "memory.peak_bytes.max"}) {
      const MetricValue* here = with_data.find(name);
      const MetricValue* there = without.find(name);
      RC_ASSERT((here == nullptr) == (there == nullptr));
      if (here != nullptr) RC_ASSERT(*here == *there);
    }
  });
}

// Rows are filled up to the capacity, so what is sent does not depend on routing.
TEST_CASE("P45: with a capacity every rank sends the same, and what is beyond is dropped") {
  for (const Overrides& routing : kRoutings) {
    Overrides overrides = routing;
    overrides.emplace_back("model.moe_capacity_factor=0.75");
    overrides.emplace_back("execution.steps=2");
    const Scenario scenario = load_evenly(kUniformRouting, kEvenExperts, overrides);
    const Result result = run_scenario(scenario).result;
    CAPTURE(routing);
    CHECK(result.exit_code == 0);
    const ModelSpec& m = scenario.model;
    const MoeOptions moe = compile(scenario).options().model.moe;
    const std::int64_t rows = m.num_experts * capacity(moe, m.seq_len);
    // On 4 ranks 3 in 4 rows leave; 2 microbatches, 2 layers, 4 journeys.
    CHECK(result.number("comm.bytes_sent.by_axis.ep") ==
          static_cast<double>(rows * 3 * 2 * 2 * 4 * 8 * m.hidden_size));
    CHECK(*result.number("moe.dropped_tokens") > 0.0);
  }
}

}  // namespace shardsim::test

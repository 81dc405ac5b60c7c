#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <rapidcheck.h>

#include "sim/search/simulate_layout.hpp"
#include "sim/search/step_end.hpp"

#include "tests/property/check_property.hpp"
#include "tests/search/search_fixture.hpp"
#include "tests/temporary_folder.hpp"

namespace shardsim::test {

namespace {

constexpr double kPicosecondsPerSecond = 1e12;

template <class Value>
std::string set(const char* path, const Value& value) {
  return fmt::format("{}={}", path, value);
}

std::string draw_model() {
  const std::string family = *rc::gen::element<std::string>("llama", "gpt2");
  // Few key and value heads are copied to tensor-parallel ranks.
  const int groups = family == "llama" ? *rc::gen::element(8, 2) : 8;
  std::string model = fmt::format(
      R"({{"family": "{}", "num_layers": {}, "hidden_size": {}, "ffn_hidden_size": 1024,
           "num_attention_heads": 8, "num_query_groups": {}, "vocab_size": {}, "seq_len": {},
           "max_position_embeddings": 1024, "tied_embeddings": {})",
      family, *rc::gen::inRange(2, 7), *rc::gen::element(256, 1024), groups,
      *rc::gen::element(1000, 32000), *rc::gen::element(256, 1024), *rc::gen::arbitrary<bool>());
  if (model.find("llama") != std::string::npos && *rc::gen::arbitrary<bool>()) {
    model += fmt::format(
        R"(, "num_experts": {}, "num_experts_per_token": 2, "moe_ffn_hidden_size": 512,
           "num_shared_experts": {}, "first_dense_layers": {}, "moe_routing": "{}")",
        *rc::gen::element(4, 8), *rc::gen::inRange(0, 2), *rc::gen::inRange(0, 2),
        *rc::gen::element("learned", "learned", "uniform"));
  }
  return model + "}";
}

// Settings that change what a step does beside its layers.
std::vector<std::string> draw_settings() {
  const std::string order = *rc::gen::element("tp-dp-pp", "tp-dp-pp", "dp-tp-pp");
  const bool may_be_per_node = order == "tp-dp-pp";
  return {set("parallelism.overlap_grad_reduce", *rc::gen::arbitrary<bool>()),
          set("parallelism.overlap_param_gather", *rc::gen::arbitrary<bool>()),
          set("parallelism.reshard_after_forward", *rc::gen::arbitrary<bool>()),
          set("parallelism.sync_every_microbatch", *rc::gen::arbitrary<bool>()),
          set("parallelism.prefetch_units", *rc::gen::inRange(0, 3)),
          set("parallelism.reductions_in_flight", *rc::gen::inRange(1, 3)),
          set("parallelism.bucket_bytes", *rc::gen::element(100'000, 40'000'000)),
          set("parallelism.rank_order", order),
          set("parallelism.expert_dispatch",
              may_be_per_node ? *rc::gen::element("per_expert", "per_node") : "per_expert"),
          set("parallelism.delay_weight_gradients", *rc::gen::arbitrary<bool>()),
          set("parallelism.account_for_loss_in_pipeline_split", *rc::gen::arbitrary<bool>()),
          set("training.max_grad_norm", *rc::gen::element(0.0, 1.0)),
          set("training.optimizer", *rc::gen::element("adamw", "sgd"))};
}

SmallSpace draw_space() {
  return {.name = "drawn",
          .model = draw_model(),
          .gpu = *rc::gen::element("h100", "a100"),
          .gpus = *rc::gen::element(4, 8, 16),
          .batch = *rc::gen::element(8, 16),
          .overrides = draw_settings()};
}

}  // namespace

TEST_CASE("no drawn layout is faster or smaller than a bound of it") {
  int simulated = 0;
  check_property(40, [&] {
    const SmallSpace space = draw_space();
    const TemporaryFolder folder;
    const SearchBase base = prepare_search(request_of(space, folder / "model.json"));
    const Experiment experiment = compile(base.scenario);
    const std::vector<Candidate> all = enumerate_candidates(experiment, base.fixed);
    BoundTable bounds(experiment);
    StepEnds ends(base, experiment);
    for (int i = 0; i < 4; ++i) {
      const Candidate& candidate = all[*rc::gen::inRange<std::size_t>(0, all.size())];
      const Simulation run = simulate_layout(base, 0, candidate);
      if (!run.point) continue;
      ++simulated;
      RC_LOG() << space.model << " " << space.gpus << " x " << space.gpu << ", "
               << words_of(candidate) << "\n";
      for (const std::string& words : space.overrides) RC_LOG() << words << "\n";
      const Bound quick = bounds.quick(candidate);
      const Bound close = bounds.close(candidate);
      const Bound least =
          bounds.least(candidate, {{candidate.ep, candidate.etp, candidate.dp_replicate,
                                    candidate.dp_shard, candidate.zero_stage}});
      const PipelineStages stages = bounds.stages_of(candidate);
      const std::int64_t with_end =
          ends.least_step(candidate, stages, bounds.play(candidate, stages).message);
      const auto seconds = [](std::int64_t ps) {
        return static_cast<double>(ps) / kPicosecondsPerSecond;
      };
      RC_ASSERT(least.step_ps <= quick.step_ps);
      RC_ASSERT(least.device_bytes <= quick.device_bytes);
      RC_ASSERT(quick.step_ps <= close.step_ps);
      RC_ASSERT(quick.device_bytes <= close.device_bytes);
      RC_ASSERT(seconds(close.step_ps) <= run.point->step_time_s);
      RC_ASSERT(seconds(with_end) <= run.point->step_time_s);
      RC_ASSERT(close.device_bytes <= run.point->device_bytes);
    }
  });
  CHECK(simulated > 100);
}

}  // namespace shardsim::test

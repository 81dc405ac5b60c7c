#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <rapidcheck.h>

#include "sim/search/layout_space.hpp"
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

std::string draw_model(bool has_experts) {
  const std::string family = *rc::gen::element<std::string>("llama", "gpt2");
  // Few key and value heads are copied to tensor-parallel ranks.
  const int groups = family == "llama" ? *rc::gen::element(8, 2) : 8;
  std::string model = fmt::format(
      R"({{"family": "{}", "num_layers": {}, "hidden_size": {}, "ffn_hidden_size": 1024,
           "num_attention_heads": 8, "num_query_groups": {}, "vocab_size": {}, "seq_len": {},
           "max_position_embeddings": 1024, "tied_embeddings": {})",
      has_experts ? "llama" : family, *rc::gen::inRange(2, 7), *rc::gen::element(256, 1024), groups,
      *rc::gen::element(1000, 32000), *rc::gen::element(256, 1024), *rc::gen::arbitrary<bool>());
  const bool may_have = model.find("llama") != std::string::npos;
  if (has_experts || (may_have && *rc::gen::arbitrary<bool>())) {
    model += fmt::format(
        R"(, "num_experts": {}, "num_experts_per_token": 2, "moe_ffn_hidden_size": 512,
           "num_shared_experts": {}, "first_dense_layers": {}, "moe_routing": "{}")",
        *rc::gen::element(4, 6, 8, 12), *rc::gen::inRange(0, 2), *rc::gen::inRange(0, 2),
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

SmallSpace draw_space(bool has_experts) {
  SmallSpace space{.name = "drawn",
                   .model = draw_model(has_experts),
                   .gpu = *rc::gen::element("h100", "a100"),
                   .gpus = *rc::gen::element(4, 8, 16),
                   .batch = *rc::gen::element(8, 16),
                   .overrides = draw_settings()};
  const double link = *rc::gen::element(0.0, 0.0, 8.0, 1.0);
  if (link > 0.0) space.overrides.push_back(set("system.inter_node.bandwidth_gb_per_s", link));
  // Small models wait for the host of a framework, of which a bound of tokens knows nothing.
  const bool has_host = !has_experts && *rc::gen::arbitrary<bool>();
  space.overrides.push_back(set("system.software", has_host ? "megatron-core-2025" : "none"));
  return space;
}

// The layouts of a drawn space, and their bounds.
class DrawnLayouts {
 public:
  explicit DrawnLayouts(bool has_experts)
      : space_(draw_space(has_experts)),
        base_(prepare_search(request_of(space_, folder_ / "model.json"))),
        experiment_(compile(base_.scenario)),
        layouts_(experiment_, base_.fixed),
        all_(enumerate_candidates(experiment_, base_.fixed)),
        bounds_(experiment_),
        ends_(base_, experiment_) {}

  [[nodiscard]] const std::vector<Candidate>& all() const { return all_; }
  // Else a bound knows nothing of tokens.
  [[nodiscard]] bool learns_routing() const {
    return space_.model.find("learned") != std::string::npos;
  }

  // The closest bound of the step over its simulation; none: the layout does not run.
  std::optional<double> check(const Candidate& candidate) {
    const Simulation run = simulate_layout(base_, 0, candidate);
    if (!run.point) return std::nullopt;
    RC_LOG() << space_.model << " " << space_.gpus << " x " << space_.gpu << ", "
             << words_of(candidate) << "\n";
    for (const std::string& words : space_.overrides) RC_LOG() << words << "\n";
    const Bound quick = bounds_.quick(candidate);
    const Bound close = bounds_.close(candidate);
    const Bound least =
        bounds_.least(candidate, {{candidate.ep, candidate.etp, candidate.dp_replicate,
                                   candidate.dp_shard, candidate.zero_stage}});
    // The groups that it is in: all choices of data, and those that share experts as it does.
    for (const bool is_small : {false, true}) {
      const Bound of_group = bound_of_group(candidate, is_small);
      RC_ASSERT(of_group.step_ps <= quick.step_ps);
      RC_ASSERT(of_group.device_bytes <= quick.device_bytes);
    }
    const PipelineStages stages = bounds_.stages_of(candidate);
    const std::int64_t with_end =
        ends_.least_step(candidate, stages, bounds_.play(candidate, stages).message);
    RC_ASSERT(least.step_ps <= quick.step_ps);
    RC_ASSERT(least.device_bytes <= quick.device_bytes);
    RC_ASSERT(quick.step_ps <= close.step_ps);
    RC_ASSERT(quick.device_bytes <= close.device_bytes);
    RC_ASSERT(seconds(close.step_ps) <= run.point->step_time_s);
    RC_ASSERT(seconds(with_end) <= run.point->step_time_s);
    RC_ASSERT(close.device_bytes <= run.point->device_bytes);
    return seconds(std::max(close.step_ps, with_end)) / run.point->step_time_s;
  }

 private:
  // As a search has it.
  Bound bound_of_group(const Candidate& candidate, bool is_small) {
    const auto block = std::ranges::find_if(layouts_.blocks(), [&](const LayoutBlock& each) {
      return each.tp == candidate.tp && each.cp == candidate.cp && each.pp == candidate.pp;
    });
    std::vector<DataChoice> data;
    for (const DataChoice& choice : block->data) {
      const bool is_alike = choice.ep == candidate.ep && choice.etp == candidate.etp;
      if (!is_small || is_alike) data.push_back(choice);
    }
    return bounds_.least(with_data(candidate, data.front()), smallest_choices(data));
  }
  static double seconds(std::int64_t ps) { return static_cast<double>(ps) / kPicosecondsPerSecond; }

  TemporaryFolder folder_;
  SmallSpace space_;
  SearchBase base_;
  Experiment experiment_;
  LayoutSpace layouts_;
  std::vector<Candidate> all_;
  BoundTable bounds_;
  StepEnds ends_;
};

}  // namespace

TEST_CASE("no drawn layout is faster or smaller than a bound of it") {
  int simulated = 0;
  check_property(40, [&] {
    DrawnLayouts layouts(false);
    for (int i = 0; i < 4; ++i) {
      const auto which = *rc::gen::inRange<std::size_t>(0, layouts.all().size());
      if (layouts.check(layouts.all()[which])) ++simulated;
    }
  });
  CHECK(simulated > 100);
}

TEST_CASE("nor one whose tokens travel while the other half of a block computes") {
  int simulated = 0;
  int with_tokens = 0;
  double sum = 0.0;
  check_property(60, [&] {
    DrawnLayouts layouts(true);
    std::vector<const Candidate*> in_turns;
    for (const Candidate& each : layouts.all()) {
      const bool has_blocks = runs_blocks(schedule_row_of(each.schedule));
      if (has_blocks && each.ep > 1) in_turns.push_back(&each);
    }
    if (in_turns.empty()) return;
    for (int i = 0; i < 4; ++i) {
      const auto which = *rc::gen::inRange<std::size_t>(0, in_turns.size());
      const std::optional<double> ratio = layouts.check(*in_turns[which]);
      if (!ratio) continue;
      ++simulated;
      if (!layouts.learns_routing()) continue;
      ++with_tokens;
      sum += *ratio;
    }
  });
  CHECK(simulated > 40);
  CHECK(sum / with_tokens > 0.85);
}

// Bounds of all layouts of a space, none of which is drawn.
void check_space(const SmallSpace& space) {
  const TemporaryFolder folder;
  const SearchBase base = prepare_search(request_of(space, folder / "model.json"));
  const Experiment experiment = compile(base.scenario);
  BoundTable bounds(experiment);
  StepEnds ends(base, experiment);
  int simulated = 0;
  for (const Candidate& candidate : enumerate_candidates(experiment, base.fixed)) {
    const Simulation run = simulate_layout(base, 0, candidate);
    if (!run.point) continue;
    ++simulated;
    INFO(words_of(candidate));
    const double step_ps = run.point->step_time_s * kPicosecondsPerSecond;
    const PipelineStages stages = bounds.stages_of(candidate);
    const std::int64_t with_end =
        ends.least_step(candidate, stages, bounds.play(candidate, stages).message);
    CHECK(static_cast<double>(bounds.close(candidate).step_ps) <= step_ps);
    CHECK(static_cast<double>(with_end) <= step_ps);
    // A group with any ep.
    const DataChoice own{candidate.ep, candidate.etp, candidate.dp_replicate, candidate.dp_shard,
                         candidate.zero_stage};
    const DataChoice other{1, 1, 1, candidate.dp_replicate * candidate.dp_shard, 0};
    CHECK(static_cast<double>(bounds.least(candidate, {own, other}).step_ps) <= step_ps);
  }
  CHECK(simulated > 0);
}

constexpr const char* kExperts = R"({{"family": "llama", "num_layers": {}, "hidden_size": {},
    "ffn_hidden_size": 1024, "num_attention_heads": 64, "num_query_groups": 8, "vocab_size": 1000,
    "seq_len": {}, "max_position_embeddings": 8192, "tied_embeddings": false, "num_experts": 8,
    "num_experts_per_token": {}, "moe_ffn_hidden_size": {}, "moe_routing": "{}"}})";

TEST_CASE("a forward computes beside the reductions that its block's backward waits for") {
  check_space({.name = "reductions",
               .model = fmt::format(kExperts, 48, 2048, 2048, 2, 1024, "learned"),
               .gpu = "h100",
               .gpus = 32,
               .batch = 256,
               .overrides = {set("system.inter_node.bandwidth_gb_per_s", 8)},
               .fixed = {"schedule=combined_1f1b,dualpipe_v", "zero_stage=2", "pp=2", "vpp=2",
                         "tp=1", "cp=1", "recompute=none", "ep=8", "micro_batch_size=1"}});
}

TEST_CASE("a block with experts sends no more than its mixer does in tensor parallelism") {
  for (const char* routing : {"uniform", "learned"}) {
    check_space({.name = "wide",
                 .model = fmt::format(kExperts, 4, 8192, 8192, 1, 256, routing),
                 .gpu = "h100",
                 .gpus = 16,
                 .batch = 8,
                 .fixed = {"tp=8", "cp=1", "pp=1,2", "recompute=none", "micro_batch_size=1"}});
  }
}

}  // namespace shardsim::test

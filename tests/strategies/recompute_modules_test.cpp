#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/strategies/block_pass.hpp"
#include "tests/strategies/expert_layer_fixture.hpp"
#include "tests/strategies/layer_fixture.hpp"
#include "tests/strategies/model_fixture.hpp"

// Recomputation by module: what each drops, what it computes again, and that nothing else changes.
namespace shardsim::test {
namespace {

using Module = RecomputeModule;

constexpr std::int64_t kSomeSamples = 3;
constexpr std::int64_t kSomeTokens = kSomeSamples * 96;
constexpr std::int64_t kSomeWidth = 256;
constexpr std::int64_t kSomeInner = 704;
constexpr std::int64_t kNormBytes = 2 * kSomeWidth + 4;  // Output and, in fp32, a statistic.

// All sizes differ, so that no term can hide behind another.
ModelOptions plain_block() {
  return {.family = "llama",
          .num_layers = 1,
          .hidden_size = kSomeWidth,
          .ffn_hidden_size = kSomeInner,
          .num_attention_heads = 8,
          .num_query_groups = 4,
          .head_dim = 24,
          .value_head_dim = 40,
          .vocab_size = 1000,
          .seq_len = 96,
          .dtype = DType::bf16};
}

ModelOptions latent_block(std::int64_t query_rank) {
  ModelOptions options = plain_block();
  options.num_query_groups = 8;
  options.head_dim = 0;
  options.q_lora_rank = query_rank;
  options.kv_lora_rank = 72;
  options.qk_nope_head_dim = 24;
  options.qk_rope_head_dim = 12;
  return options;
}

constexpr std::int64_t kSharedWidth = 88;
constexpr std::int64_t kRowWidth = 56;

ModelOptions expert_block() {
  ModelOptions options = plain_block();
  options.layers = {{.mixer = Mixer::none, .feed_forward = FeedForward::experts}};
  options.moe = {.num_experts = 8,
                 .experts_per_token = 3,
                 .ffn_hidden_size = kRowWidth,
                 .shared_ffn_hidden_size = kSharedWidth};
  return options;
}

ModelOptions with_modules(ModelOptions options, RecomputeModules modules) {
  options.recompute = Recompute::selective;
  options.recompute_modules = modules;
  return options;
}

// Bytes per token that are dropped, and flops of all tokens that come again.
struct Saving {
  RecomputeModules modules;
  std::int64_t bytes = 0;
  std::int64_t flops = 0;
};

void check_savings(const ModelOptions& options, const std::vector<Saving>& savings) {
  const BlockPass none(options, kSomeSamples);
  for (const Saving& each : savings) {
    CAPTURE(to_string(each.modules));
    const BlockPass some(with_modules(options, each.modules), kSomeSamples);
    CHECK(none.kept - some.kept == kSomeTokens * each.bytes);
    CHECK(some.flops(true) == none.flops(true));
    CHECK(some.flops(false) - none.flops(false) == each.flops);
  }
}

// A whole model's step on one device.
struct ModelStep {
  explicit ModelStep(const ModelOptions& options) : runtime(true), model(make_model(options)) {
    parameters = std::make_unique<WholeParameters>(*model, runtime, 5, options.dtype, DType::fp32);
    const Batch batch = model->make_batch(runtime, 1, 0, 2, 0.0);
    std::vector<Saved> saved;
    const std::int64_t before = runtime.activation_bytes();
    loss = run_forward(*model, runtime, *parameters, batch, saved).get(0);
    run_backward(*model, runtime, *parameters, batch, saved);
    CHECK(runtime.activation_bytes() == before);
  }
  RecordingRuntime runtime;
  std::unique_ptr<Model> model;
  std::unique_ptr<WholeParameters> parameters;
  double loss = 0.0;
};

void check_same_step(const ModelStep& a, const ModelStep& b) {
  CHECK(a.loss == b.loss);
  CHECK(a.parameters->ready() == b.parameters->ready());
  for (int i = 0; i < b.parameters->size(); ++i) {
    CHECK(max_difference(a.parameters->gradient(i), b.parameters->gradient(i)) == 0.0);
  }
}

// Each module, each pair, and all.
std::vector<RecomputeModules> sets_of_modules() {
  const auto count = static_cast<int>(recompute_module_names().size());
  std::vector<RecomputeModules> sets;
  RecomputeModules all;
  for (int i = 0; i < count; ++i) {
    all.add(static_cast<Module>(i));
    for (int j = i; j < count; ++j) {
      sets.push_back({static_cast<Module>(i), static_cast<Module>(j)});
    }
  }
  sets.push_back(all);
  return sets;
}

}  // namespace

TEST_CASE("K10: each module drops its bytes, and computes its flops again") {
  const std::int64_t pairs = kSomeSamples * 96 * 96 * 8;
  const std::int64_t mlp = 2 * kSomeTokens * 3 * kSomeWidth * kSomeInner;
  check_savings(
      plain_block(),
      {{{Module::layernorm}, 2 * kNormBytes, 0},
       {{Module::activation}, 2 * kSomeInner, 0},
       {{Module::core_attn}, 4 * 8, pairs * (24 + 40)},
       {{Module::mlp}, 2 * 3 * kSomeInner, mlp},
       {{Module::mlp, Module::activation}, 2 * 3 * kSomeInner, mlp},
       {{Module::mlp, Module::layernorm}, 2 * 3 * kSomeInner + 2 * kNormBytes, mlp},
       {{Module::moe_act, Module::moe, Module::shared_experts, Module::mla_up_proj}, 0, 0}});
}

TEST_CASE("K10: core_attn drops scores that the software keeps") {
  for (const double score_bytes : {2.0, 5.0}) {
    ModelOptions options = plain_block();
    options.memory.score_bytes = score_bytes;
    const std::int64_t scores = static_cast<std::int64_t>(score_bytes) * 96 * 8;
    check_savings(options,
                  {{{Module::core_attn}, scores + 4 * 8, kSomeSamples * 96 * 96 * 8 * (24 + 40)}});
  }
}

TEST_CASE(
    "K10: what the software keeps beside norms and activations is kept, and dropped with them") {
  ModelOptions options = plain_block();
  const BlockPass ideal(options, kSomeSamples);
  options.memory.norm_kept_bytes = 4.0;
  options.memory.activation_kept_bytes = 1.0;
  const BlockPass eager(options, kSomeSamples);
  CHECK(eager.kept - ideal.kept == kSomeTokens * (2 * 4 * kSomeWidth + kSomeInner));
  check_savings(options, {{{Module::layernorm}, 2 * kNormBytes + 2 * 4 * kSomeWidth, 0},
                          {{Module::activation}, 2 * kSomeInner + kSomeInner, 0}});
  options.recompute = Recompute::full;
  CHECK(BlockPass(options, kSomeSamples).kept == 0);  // The input is the caller's.
  const ModelStep step(options);                      // It frees all that it kept.
  // A fused layer norm and an ungated activation keep their inputs.
  ModelOptions other = plain_block();
  other.norm = NormKind::layer;
  other.activation.kind = Activation::gelu_tanh;
  const std::int64_t kept = BlockPass(other, kSomeSamples).kept;
  other.memory = options.memory;
  CHECK(BlockPass(other, kSomeSamples).kept == kept);
}

TEST_CASE("K10: a recomputation that stops early leaves out a block's last product") {
  ModelOptions options = plain_block();
  options.recompute = Recompute::full;
  const BlockPass all(options, kSomeSamples);
  options.recompute_stops_early = true;
  const BlockPass some(options, kSomeSamples);
  CHECK(all.flops(false) - some.flops(false) == 2 * kSomeTokens * kSomeInner * kSomeWidth);
  CHECK(all.flops(true) == some.flops(true));
  // A norm behind the branch reads what the product returns, and dropout leaves a mask.
  ModelOptions normed = options;
  normed.norm_placement = NormPlacement::sandwich;
  CHECK(BlockPass(normed, kSomeSamples).flops(false) == all.flops(false));
  ModelOptions dropping = options;
  dropping.hidden_dropout = 0.1;
  CHECK(BlockPass(dropping, kSomeSamples).flops(false) == all.flops(false));
}

TEST_CASE("K10: the same for latent attention") {
  const std::int64_t d = 24 + 12;
  const std::int64_t heads = 2 * 8 * (2 * d + 40);  // Queries, keys, values.
  const std::int64_t pairs = kSomeSamples * 96 * 96 * 8 * (d + 40);
  for (const std::int64_t query_rank : {0, 56}) {
    CAPTURE(query_rank);
    const std::int64_t read = query_rank > 0 ? query_rank : kSomeWidth;
    const std::int64_t products = 2 * kSomeTokens * 8 * (read * d + 72 * (24 + 40));
    const std::int64_t latents = 2 * 72 + 4 + (query_rank > 0 ? 2 * query_rank + 4 : 0);
    check_savings(
        latent_block(query_rank),
        {{{Module::mla_up_proj}, heads + latents, products},
         {{Module::core_attn}, 4 * 8, pairs},
         {{Module::layernorm}, latents + 2 * kNormBytes, 0},
         {{Module::mla_up_proj, Module::core_attn}, heads + latents + 4 * 8, products + pairs},
         {{Module::mla_up_proj, Module::layernorm}, heads + latents + 2 * kNormBytes, products}});
  }
}

TEST_CASE("K10: the same for experts") {
  const std::int64_t shared = 2 * kSomeTokens * 3 * kSomeWidth * kSharedWidth;
  const std::int64_t routed = 2 * kSomeTokens * (8 + 3 * 3 * kRowWidth) * kSomeWidth;
  const BlockPass none(expert_block(), kSomeSamples);
  const std::int64_t all = none.kept / kSomeTokens - kNormBytes;  // But its input.
  check_savings(expert_block(),
                {{{Module::moe_act}, 2 * 3 * kRowWidth, 0},
                 {{Module::activation}, 2 * kSharedWidth, 0},
                 {{Module::shared_experts}, 2 * 3 * kSharedWidth, shared},
                 {{Module::shared_experts, Module::activation}, 2 * 3 * kSharedWidth, shared},
                 {{Module::mlp}, 0, 0}});
  ModelOptions gated = expert_block();
  gated.moe.has_shared_gate = true;  // Its logit, and the output ahead of it, are kept.
  check_savings(gated, {{{Module::shared_experts},
                         2 * 3 * kSharedWidth + 2 * kSomeWidth + 2,
                         shared + 2 * kSomeTokens * kSomeWidth}});
  // Rows of each expert are counted once for all tokens: 4 bytes each.
  for (const RecomputeModules& modules :
       {RecomputeModules{Module::moe}, RecomputeModules{Module::moe, Module::shared_experts},
        RecomputeModules{Module::moe, Module::moe_act, Module::activation}}) {
    CAPTURE(to_string(modules));
    const BlockPass again(with_modules(expert_block(), modules), kSomeSamples);
    CHECK(again.kept == kSomeTokens * kNormBytes);
    CHECK(all > 0);
    CHECK(again.flops(false) - none.flops(false) == routed + shared);
  }
}

TEST_CASE(
    "whatever modules are recomputed, losses, gradients and their order are bitwise the same") {
  std::vector<std::pair<std::string, ModelOptions>> models;
  for (const char* name :
       {"gpt2", "llama", "latent llama", "llama with a latent of keys", "mamba hybrid",
        "delta hybrid", "gpt2 dropping", "scaled hybrid", "llama of today",
        "llama of keys as values", "llama with gates of heads", "predicting llama"}) {
    models.emplace_back(name, small_model(name));
  }
  models.emplace_back("parallel hybrid", small_model("parallel hybrid"));
  MoeOptions moe = some_experts(RoutingKind::learned, 2);
  models.emplace_back("experts", model_with_experts(moe));
  moe.shared_ffn_hidden_size = 8;
  moe.has_shared_gate = true;
  moe.latent_size = 4;
  models.emplace_back("experts beside shared ones", model_with_experts(moe));
  for (const auto& [name, options] : models) {
    const ModelStep none(options);
    for (const RecomputeModules& modules : sets_of_modules()) {
      const ModelStep again(with_modules(options, modules));
      CAPTURE(name, to_string(modules));
      check_same_step(again, none);
    }
    ModelOptions full = options;
    full.recompute = Recompute::full;
    for (const bool stops_early : {false, true}) {
      CAPTURE(name, stops_early);
      full.recompute_stops_early = stops_early;
      check_same_step(ModelStep(full), none);
    }
  }
}

TEST_CASE("names of modules are read as they are written, and others are refused") {
  for (const RecomputeModules& modules : sets_of_modules()) {
    CHECK(recompute_modules_of(to_string(modules)) == modules);
  }
  for (const char* wrong : {"", "mlp,", ",mlp", "mlp,,moe", "mlp moe", "MLP", "mlp,mlp", "mla"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(recompute_modules_of(wrong), UsageError);
  }
  ModelOptions parallel = small_model("llama");
  parallel.parallel_block = true;
  CHECK(code_of_model(with_modules(parallel, {Module::mlp})) == "E0629");
  CHECK(code_of_model(with_modules(parallel, {Module::core_attn})) == "none");
}

}  // namespace shardsim::test

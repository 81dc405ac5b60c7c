#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "strategies/model/columns.hpp"
#include "strategies/model/embedding.hpp"
#include "strategies/model/latent_rows.hpp"

#include "tests/strategies/block_pass.hpp"
#include "tests/strategies/tensor_parallel_fixture.hpp"

// Latent attention against its closed formulas: parameters, memory kept, flops, bytes sent; and the
// layers that it is made of against difference quotients.
namespace shardsim::test {
namespace {

constexpr std::int64_t kLatentSamples = 3;

// All sizes differ, so that no term can hide behind another.
ModelOptions latent_model(std::int64_t query_rank, Recompute recompute = Recompute::none) {
  return {.family = "llama",
          .num_layers = 2,
          .hidden_size = 256,
          .ffn_hidden_size = 704,
          .num_attention_heads = 8,
          .num_query_groups = 8,
          .value_head_dim = 40,
          .q_lora_rank = query_rank,
          .kv_lora_rank = 72,
          .qk_nope_head_dim = 24,
          .qk_rope_head_dim = 12,
          .vocab_size = 1000,
          .seq_len = 96,
          .dtype = DType::bf16,
          .recompute = recompute};
}

// Elements of the matrices of latent attention.
std::int64_t matrices_of(const ModelOptions& o) {
  const std::int64_t h = o.hidden_size;
  const std::int64_t n = o.num_attention_heads;
  const std::int64_t d = o.qk_nope_head_dim + o.qk_rope_head_dim;
  const std::int64_t queries =
      o.q_lora_rank > 0 ? h * o.q_lora_rank + o.q_lora_rank * n * d : h * n * d;
  return queries + h * (o.kv_lora_rank + o.qk_rope_head_dim) +
         o.kv_lora_rank * n * (o.qk_nope_head_dim + o.value_head_dim) + n * o.value_head_dim * h;
}

// One block, forward and backward, on shapes alone.
struct LatentPass : BlockPass {
  explicit LatentPass(const ModelOptions& options) : BlockPass(options, kLatentSamples) {}
};

// Bytes of a block's latent attention and MLP beside its input, which is kept in any case.
std::int64_t kept_bytes(const ModelOptions& o) {
  const std::int64_t n = o.num_attention_heads;
  const std::int64_t d = o.qk_nope_head_dim + o.qk_rope_head_dim;
  const std::int64_t norms = o.q_lora_rank > 0 ? 2 : 1;  // One for each latent.
  // The norm of x; latents before and behind their norms, the part of keys beside; q, k, v, y.
  const std::int64_t attention = o.hidden_size + 2 * o.q_lora_rank + 2 * o.kv_lora_rank +
                                 o.qk_rope_head_dim + n * (2 * d + 2 * o.value_head_dim);
  const std::int64_t mlp = 2 * o.hidden_size + 3 * o.ffn_hidden_size;
  // Statistics: of the block's norms, the latents', and a log-sum-exp per head.
  return kLatentSamples * o.seq_len * (2 * (attention + mlp) + 4 * (2 + norms + n));
}

}  // namespace

TEST_CASE("M1: latent attention has the parameters of its formula; DeepSeek-V3's are 187,107,328") {
  for (const std::int64_t query_rank : {0, 56}) {
    const ModelOptions o = latent_model(query_rank);
    const std::int64_t of_block = matrices_of(o) + o.q_lora_rank + o.kv_lora_rank +
                                  2 * o.hidden_size + 3 * o.hidden_size * o.ffn_hidden_size;
    CHECK(num_parameters(*make_model(o)) ==
          2 * of_block + 2 * o.vocab_size * o.hidden_size + o.hidden_size);
  }
  ModelOptions v3 = latent_model(1536);
  v3.hidden_size = 7168;
  v3.num_attention_heads = v3.num_query_groups = 128;
  v3.kv_lora_rank = 512;
  v3.qk_nope_head_dim = v3.value_head_dim = 128;
  v3.qk_rope_head_dim = 64;
  CHECK(matrices_of(v3) + v3.q_lora_rank + v3.kv_lora_rank == 187107328);
  const std::int64_t outside = 2 * (2 * 7168 + 3 * 7168 * 704) + 2 * 1000 * 7168 + 7168;
  CHECK(num_parameters(*make_model(v3)) == 2 * 187107328 + outside);
}

TEST_CASE("M4: a block of latent attention keeps what the formula says, in each recomputation") {
  for (const std::int64_t query_rank : {0, 56}) {
    const ModelOptions o = latent_model(query_rank);
    CAPTURE(query_rank);
    CHECK(LatentPass(o).kept == kept_bytes(o));
    // Without norms' outputs and statistics, of latents, too, and without SwiGLU's output.
    const std::int64_t norms = query_rank > 0 ? 4 : 3;
    const std::int64_t dropped =
        2 * (2 * o.hidden_size + o.ffn_hidden_size + query_rank + 72) + 4 * norms;
    CHECK(LatentPass(latent_model(query_rank, Recompute::selective)).kept ==
          kept_bytes(o) - kLatentSamples * o.seq_len * dropped);
    CHECK(LatentPass(latent_model(query_rank, Recompute::full)).kept == 0);
  }
}

TEST_CASE("M4: flops of latent attention are those of its matrices, scores and values") {
  for (const std::int64_t query_rank : {0, 56}) {
    const ModelOptions o = latent_model(query_rank);
    const std::int64_t tokens = kLatentSamples * o.seq_len;
    const std::int64_t products =
        2 * tokens * (matrices_of(o) + 3 * o.hidden_size * o.ffn_hidden_size);
    const std::int64_t pairs = kLatentSamples * o.seq_len * o.seq_len * o.num_attention_heads;
    const std::int64_t d = 24 + 12;
    CAPTURE(query_rank);
    const LatentPass none(o);
    CHECK(none.flops(true) == products + pairs * (d + 40));
    CHECK(none.flops(false) == 2 * products + pairs * (3 * d + 2 * 40));
    const LatentPass selective(latent_model(query_rank, Recompute::selective));
    CHECK(selective.flops(false) == none.flops(false));
    const LatentPass full(latent_model(query_rank, Recompute::full));
    CHECK(full.flops(false) == none.flops(false) + none.flops(true));
    // For the model's own count scores are not computed again.
    const std::int64_t head = 2 * tokens * o.hidden_size * o.vocab_size;
    CHECK(kLatentSamples * none.model->model_flops_per_sample() ==
          3 * (2 * (products + pairs * (d + 40)) + head));
  }
}

namespace {

// Bytes that one block's pass sends over tensor-parallel ranks, all ranks together.
std::int64_t sent_by_block(std::int64_t query_rank, int size, bool sequence_parallel) {
  std::int64_t sent[2] = {};
  for (const std::int64_t layers : {1, 2}) {
    ModelCase c{.options = latent_model(query_rank), .samples = kLatentSamples, .size = size};
    c.options.num_layers = layers;
    c.sequence_parallel = sequence_parallel;
    const auto model = make_model(c.of_part());
    FiberWorld world({.cluster = test_cluster(size), .has_data = false});
    world.run([&](Runtime& runtime, Communicator& everyone) {
      PartRun(c, *model, runtime, everyone, nullptr).run();
    });
    sent[layers - 1] = world.traffic().at("world").payload_sent;
  }
  return sent[1] - sent[0];
}

}  // namespace

TEST_CASE(
    "the region of latent attention is entered by latents, and by x where queries have none") {
  constexpr int kRanks = 4;
  for (const std::int64_t query_rank : {0, 56}) {
    const std::int64_t h = 256;
    const std::int64_t read = (query_rank > 0 ? query_rank : h) + 72;  // By up projections.
    const std::int64_t entrance = read + 12;
    const std::int64_t unit = kLatentSamples * 96 * 2 * (kRanks - 1);  // An element of every token.
    CAPTURE(query_rank);
    // Sums: two outputs of rows, the MLP's input gradient, and that of the entrance.
    CHECK(sent_by_block(query_rank, kRanks, false) == 2 * unit * (3 * h + entrance));
    // The MLP: five of h. Attention: in and out, each way, and what weights read once more.
    CHECK(sent_by_block(query_rank, kRanks, true) == unit * (5 * h + 2 * h + 2 * entrance + read));
  }
}

TEST_CASE("keys are spread over heads, and the shared part's gradient is the sum over these") {
  LocalRuntime runtime;
  const LatentHead head{3, 2, 4};
  const Tensor kv = random_tensor("kv", {2, 3, 5 * 7});
  const Tensor shared = random_tensor("shared", {2, 3, 2});
  const Tensor dk = random_tensor("dk", {2, 3, 5 * 5});
  const Tensor dv = random_tensor("dv", {2, 3, 5 * 4});
  const auto value = [&] {
    const LatentKeys keys = spread_keys(runtime, kv, shared, head);
    return dot(keys.k, dk) + dot(keys.v, dv);
  };
  const LatentKeyGradients gradients = spread_keys_backward(runtime, {dk, dv}, head);
  CHECK(max_difference(gradients.kv, numeric_gradient(kv, value)) < 1e-9);
  CHECK(max_difference(gradients.shared, numeric_gradient(shared, value)) < 1e-9);
  // Head 4 of row 1: its own three elements, and behind them the row's shared ones.
  const LatentKeys keys = spread_keys(runtime, kv, shared, head);
  for (std::int64_t i = 0; i < 3; ++i) CHECK(keys.k.get(25 + 20 + i) == kv.get(35 + 28 + i));
  for (std::int64_t i = 0; i < 2; ++i) CHECK(keys.k.get(25 + 23 + i) == shared.get(2 + i));
  for (std::int64_t i = 0; i < 4; ++i) CHECK(keys.v.get(20 + 16 + i) == kv.get(35 + 31 + i));
}

TEST_CASE("columns are cut from rows and joined to rows again") {
  LocalRuntime runtime;
  const Tensor x = random_tensor("x", {2, 3, 7});
  const Tensor left = copy_columns(runtime, {x, 0, 4});
  const Tensor right = copy_columns(runtime, {x, 4, 3});
  CHECK(left.shape() == Shape{2, 3, 4});
  CHECK(right.get(3 + 1) == x.get(7 + 5));
  CHECK(max_difference(join_columns(runtime, left, right), x) == 0.0);
}

TEST_CASE("rotary positions of a head's last elements leave those before them as they are") {
  LocalRuntime runtime;
  const Tensor x = random_tensor("x", {1, 4, 2 * 7});
  const Tensor y = copy_of(x);
  rotary_forward(runtime, y, {7, 100.0, 4, 3});
  for (std::int64_t row = 0; row < 4; ++row) {
    for (std::int64_t head = 0; head < 2; ++head) {
      const std::int64_t at = row * 14 + head * 7;
      for (std::int64_t i = 0; i < 3; ++i) CHECK(y.get(at + i) == x.get(at + i));
      const Tensor turned = zeros({1, 4, 4});
      for (std::int64_t i = 0; i < 4; ++i) turned.set(row * 4 + i, x.get(at + 3 + i));
      rotary_forward(runtime, turned, {4, 100.0});
      for (std::int64_t i = 0; i < 4; ++i) CHECK(y.get(at + 3 + i) == turned.get(row * 4 + i));
    }
  }
  rotary_backward(runtime, y, {7, 100.0, 4, 3});
  CHECK(max_difference(y, x) < 1e-14);
}

TEST_CASE("latent attention refuses what it cannot be with") {
  const ModelOptions good = small_model("latent llama");
  CHECK(code_of_model(good) == "none");
  const auto refused = [&](auto&& change) {
    ModelOptions options = good;
    change(options);
    return code_of_model(options);
  };
  CHECK(refused([](ModelOptions& o) { o.num_query_groups = 2; }) == "E0649");
  CHECK(refused([](ModelOptions& o) { o.query_key_norm = QueryKeyNorm::per_head; }) == "E0649");
  CHECK(refused([](ModelOptions& o) { o.query_key_value_bias = true; }) == "E0649");
  CHECK(refused([](ModelOptions& o) { o.attention_out_bias = true; }) == "E0649");
  CHECK(refused([](ModelOptions& o) { o.attention_output_gate = true; }) == "E0649");
  CHECK(refused([](ModelOptions& o) { o.layers = {{}, {.has_sinks = true}}; }) == "E0649");
  CHECK(refused([](ModelOptions& o) { o.qk_nope_head_dim = 0; }) == "E0649");
  CHECK(refused([](ModelOptions& o) { o.value_head_dim = 0; }) == "E0649");
  CHECK(refused([](ModelOptions& o) { o.qk_rope_head_dim = 3; }) == "E0627");
  ModelOptions gpt2 = small_model("gpt2");
  gpt2.value_head_dim = 3;
  CHECK(code_of_model(gpt2) == "E0629");
  gpt2.value_head_dim = 0;
  gpt2.kv_lora_rank = 4;
  CHECK(code_of_model(gpt2) == "E0629");
}

}  // namespace shardsim::test

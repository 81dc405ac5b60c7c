#include <initializer_list>
#include <utility>

#include <catch2/catch.hpp>

#include "tests/exchange/exchange_fixture.hpp"

// Sizes in refusals of config.json: each is added up here over the tensors that the models'
// checkpoints have, with their shapes as numbers.
namespace shardsim::test {

namespace {

using TensorShapes = std::initializer_list<std::pair<std::int64_t, std::int64_t>>;

std::int64_t tensor_elements(const TensorShapes& shapes) {
  std::int64_t sum = 0;
  for (const auto& [rows, columns] : shapes) sum += rows * columns;
  return sum;
}

std::string cost_said(std::int64_t parameters, std::int64_t flops) {
  return std::to_string(parameters) + " parameters and " + std::to_string(flops) +
         " FLOPs per token forward";
}

std::string hf_refusal(const std::string& json) {
  const TemporaryFolder folder;
  const std::string file = folder / "config.json";
  write(file, json);
  const Printed printed = shardsim({"import", "hf", file});
  CHECK(printed.exit_code == 2);
  CHECK(printed.out.empty());
  return printed.err;
}

void check_says(const std::string& refusal, const std::string& said) {
  INFO(refusal);
  INFO(said);
  CHECK(contains(refusal, said));
}

// `begin`, so many times 4 and 128, and `end`.
std::string ratio_list(const std::string& begin, int pairs, const std::string& end) {
  std::string list = begin;
  for (int i = 0; i < pairs; ++i) list += "4, 128, ";
  return "\"compress_ratios\": [" + list + end + "]";
}

// DeepSeek-V4-Pro's and -Flash's, as published: 31 layers of ratio 128 and 30 of ratio 4; 20 of
// 128, 21 of 4 and two without. The last ratio is that of multi-token prediction.
const std::string kDeepSeekPro = R"({"model_type": "deepseek_v4", "head_dim": 512, "hc_mult": 4,
    "hidden_size": 7168, "index_head_dim": 128, "index_n_heads": 64, "index_topk": 1024,
    "num_attention_heads": 128, "num_experts_per_tok": 6, "num_hash_layers": 3,
    "num_hidden_layers": 61, "num_nextn_predict_layers": 1, "o_groups": 16, "o_lora_rank": 1024,
    "q_lora_rank": 1536, "vocab_size": 129280, )" +
                                 ratio_list("128, 128, ", 29, "4, 0") + "}";
const std::string kDeepSeekFlash = R"({"model_type": "deepseek_ref", "head_dim": 512,
    "hc_mult": 4, "hidden_size": 4096, "index_head_dim": 128, "index_n_heads": 64,
    "index_topk": 512, "num_attention_heads": 64, "num_experts_per_tok": 6, "num_hash_layers": 3,
    "num_hidden_layers": 43, "num_nextn_predict_layers": 1, "o_groups": 8, "o_lora_rank": 1024,
    "q_lora_rank": 1024, "vocab_size": 129280, )" +
                                   ratio_list("0, 0, ", 20, "4, 0") + "}";

// Kimi-K3's, as published: 69 of 93 layers are of KDA, the first is dense.
std::string kimi_k3() {
  std::string delta;
  for (int layer = 1; layer < 92; ++layer) {
    if (layer % 4 != 0) delta += (delta.empty() ? "" : ", ") + std::to_string(layer);
  }
  return R"({"model_type": "kimi_k3", "text_config": {"model_type": "kimi_linear",
    "attn_res_block_size": 12, "first_k_dense_replace": 1, "hidden_act": "situ",
    "hidden_size": 7168, "latent_moe_use_norm": true, "linear_attn_config": {"head_dim": 128,
    "num_heads": 96, "short_conv_kernel_size": 4, "use_full_rank_gate": true, "kda_layers": [)" +
         delta + R"(]}, "mla_use_output_gate": true, "moe_intermediate_size": 3072,
    "moe_layer_freq": 1, "num_attention_heads": 96, "num_experts": 896,
    "num_experts_per_token": 16, "num_hidden_layers": 93, "routed_expert_hidden_size": 3584,
    "v_head_dim": 128, "vocab_size": 163840}})";
}

}  // namespace

TEST_CASE("M13: DeepSeek-V4's compressed attention and indexer are refused with their size",
          "[exchange]") {
  const std::string pro = hf_refusal(kDeepSeekPro);
  // wkv and wgate; the bias by position and the norm.
  const std::int64_t heavy = tensor_elements({{512, 7168}, {512, 7168}});
  const std::int64_t sparse = tensor_elements({{1024, 7168}, {1024, 7168}});
  const std::int64_t heavy_vectors = tensor_elements({{128, 512}, {1, 512}});
  const std::int64_t sparse_vectors = tensor_elements({{4, 1024}, {1, 512}});
  check_says(pro, "compress_ratios: attention to compressed keys and values (61 of 61 layers: " +
                      cost_said(31 * (heavy + heavy_vectors) + 30 * (sparse + sparse_vectors),
                                2 * (31 * heavy + 30 * sparse)) +
                      ", and in a layer 262144 more for each compressed entry)");
  // wq_b, weights_proj, wkv and wgate of the indexer's compressor.
  const std::int64_t indexer =
      tensor_elements({{8192, 1536}, {64, 7168}, {256, 7168}, {256, 7168}});
  check_says(
      pro,
      "index_topk 1024: a sparse indexer, and attention to the positions that it "
      "chooses (" +
          cost_said(30 * (indexer + tensor_elements({{4, 256}, {1, 128}})), 2 * 30 * indexer) +
          " in all 30 layers of ratio 4, and 491520 more for each compressed key)");

  const std::string flash = hf_refusal(kDeepSeekFlash);
  const std::int64_t flash_heavy = tensor_elements({{512, 4096}, {512, 4096}});
  const std::int64_t flash_sparse = tensor_elements({{1024, 4096}, {1024, 4096}});
  check_says(flash, "(41 of 43 layers: " +
                        cost_said(20 * (flash_heavy + heavy_vectors) +
                                      21 * (flash_sparse + sparse_vectors),
                                  2 * (20 * flash_heavy + 21 * flash_sparse)) +
                        ", and in a layer 131072 more for each compressed entry)");
  const std::int64_t flash_indexer =
      tensor_elements({{8192, 1024}, {64, 4096}, {256, 4096}, {256, 4096}});
  check_says(flash, cost_said(21 * (flash_indexer + tensor_elements({{4, 256}, {1, 128}})),
                              2 * 21 * flash_indexer) +
                        " in all 21 layers of ratio 4, and 344064 more");
}

TEST_CASE("M13: DeepSeek-V4's streams, tables and grouped output are refused with their size",
          "[exchange]") {
  const std::string pro = hf_refusal(kDeepSeekPro);
  // fn, base and scale, twice a layer and once ahead of the last norm.
  const std::int64_t site = tensor_elements({{24, 28672}, {1, 24}, {1, 3}});
  const std::int64_t head = tensor_elements({{4, 28672}, {1, 4}, {1, 1}});
  // fn; then four streams become one, and four others.
  const std::int64_t site_products = tensor_elements({{24, 28672}, {4, 7168}, {16, 7168}});
  const std::int64_t head_products = tensor_elements({{4, 28672}, {4, 7168}});
  check_says(pro, "hc_mult 4: hyper-connections: so many residual streams (" +
                      cost_said(122 * site + head, 2 * (122 * site_products + head_products)) +
                      " in all 61 layers and ahead of the last norm)");
  check_says(pro,
             "num_hash_layers 3: layers that route by the token's hash (0 parameters and 0 "
             "FLOPs beside a router's, and a fixed table of 775680 experts' numbers in each "
             "of 3 layers)");
  const std::int64_t output = tensor_elements({{16384, 4096}, {7168, 16384}});
  check_says(pro, "o_lora_rank 1024: an output projection in groups of low rank (" +
                      cost_said(61 * output, 2 * 61 * output) + " in all 61 layers)");
}

TEST_CASE("M13: Kimi-K3's features are refused with their size", "[exchange]") {
  const std::string refusal = hf_refusal(kimi_k3());
  // Query, key, value, gate, output; f_a, f_b and b.
  const std::int64_t delta = tensor_elements({{12288, 7168},
                                              {12288, 7168},
                                              {12288, 7168},
                                              {12288, 7168},
                                              {7168, 12288},
                                              {128, 7168},
                                              {12288, 128},
                                              {96, 7168}});
  // Three convolutions, A_log, dt_bias and o_norm.
  const std::int64_t vectors =
      tensor_elements({{12288, 4}, {12288, 4}, {12288, 4}, {1, 96}, {1, 12288}, {1, 128}});
  const std::int64_t states = 3 * 96 * 128 * 128;
  check_says(refusal,
             "text_config.linear_attn_config: Kimi delta attention (KDA) (69 of 93 layers, 96 "
             "heads of 128: " +
                 cost_said(69 * (delta + vectors), 2 * 69 * (delta + states)) + ")");
  const std::int64_t gate = 24 * tensor_elements({{12288, 7168}});
  check_says(refusal,
             "text_config.mla_use_output_gate: a gate on what latent attention returns "
             "(24 of 93 layers: " +
                 cost_said(gate, 2 * gate) + ")");
  // Ahead of layers 12 k to 12 k + 11 attention sees, k > 0: k blocks, then eleven times k + 1; the
  // MLP k + 1; each also what the block has added up. Nine layers have k = 7, the end nine states.
  std::int64_t seen = 11 * 2 + 12 * 2;
  for (std::int64_t k = 1; k < 7; ++k) seen += (k + 1) + 11 * (k + 2) + 12 * (k + 2);
  seen += 8 + 8 * 9 + 9 * 9 + 9;
  CHECK(seen == 1002);
  check_says(refusal,
             "text_config.attn_res_block_size 12: attention over the residuals of earlier blocks "
             "(" +
                 cost_said((93 * 4 + 2) * 7168, 2 * seen * 2 * 7168) +
                 " in all 93 layers and ahead of the last norm)");
  const std::int64_t projections = tensor_elements({{3584, 7168}, {7168, 3584}});
  const std::int64_t expert = tensor_elements({{3072, 3584}, {3072, 3584}, {3584, 3072}});
  check_says(refusal,
             "text_config.routed_expert_hidden_size 3584: experts on a narrower, projected "
             "state (" +
                 std::to_string(projections + 3584) + " parameters of projections and " +
                 std::to_string(896 * expert) + " of experts, and " +
                 std::to_string(2 * (projections + 16 * expert)) +
                 " FLOPs per token forward, in each of 92 layers)");
}

TEST_CASE("M13: Gates of low rank and lightning attention have sizes of their own", "[exchange]") {
  const std::string kimi = hf_refusal(R"({"model_type": "kimi_linear", "hidden_size": 2304,
    "num_hidden_layers": 27, "linear_attn_config": {"head_dim": 128, "num_heads": 32,
    "short_conv_kernel_size": 4, "kda_layers": [1, 2, 3, 5]}})");
  const std::int64_t delta = tensor_elements({{4096, 2304},
                                              {4096, 2304},
                                              {4096, 2304},
                                              {2304, 4096},
                                              {128, 2304},
                                              {4096, 128},
                                              {128, 2304},
                                              {4096, 128},
                                              {32, 2304}});
  const std::int64_t vectors = tensor_elements({{4096, 12}, {1, 32}, {1, 4096}, {1, 128}});
  check_says(kimi, "(4 of 27 layers, 32 heads of 128: " +
                       cost_said(4 * (delta + vectors), 2 * 4 * (delta + 3 * 32 * 128 * 128)) +
                       ")");
  const std::string lightning = hf_refusal(R"({"model_type": "minimax_m1", "hidden_size": 6144,
    "num_attention_heads": 64, "head_dim": 128, "num_hidden_layers": 4,
    "attn_type_list": [0, 0, 1, 0]})");
  const std::int64_t layer =
      tensor_elements({{24576, 6144}, {8192, 6144}, {6144, 8192}});  // qkv_proj, gate, out_proj.
  static_assert(24576 == 3 * 64 * 128);
  check_says(lightning, "attn_type_list: lightning attention (3 of 4 layers: " +
                            cost_said(3 * (layer + 8192), 2 * 3 * (layer + 2 * 64 * 128 * 128)) +
                            ")");
}

TEST_CASE("M13: A feature without a size says what is missing", "[exchange]") {
  const std::string some = hf_refusal(R"({"model_type": "deepseek_v4", "hidden_size": 64,
    "num_hidden_layers": 2, "hc_mult": 4, "index_topk": 8, "compress_ratios": [4, 128],
    "linear_attn_config": {"num_heads": 2}, "block_configs": [{}]})");
  check_says(some, "chooses (its size needs q_lora_rank, index_n_heads, index_head_dim)");
  check_says(some, "values (its size needs head_dim, num_attention_heads)");
  check_says(some,
             "(KDA) (its size needs linear_attn_config.head_dim, "
             "linear_attn_config.short_conv_kernel_size)");
  check_says(some,
             "block_configs: blocks with sizes of their own (its size needs num_attention_heads)");
  const std::string bare = hf_refusal(R"({"model_type": "minimax_m3",
    "sparse_attention_config": {"block": 64}})");
  check_says(bare,
             "sparse_attention_config: sparse attention (no formula for its size is known here)");
  const std::string odd = hf_refusal(R"({"model_type": "deepseek_v4", "hidden_size": 64,
    "head_dim": 8, "num_attention_heads": 4, "num_hidden_layers": 2,
    "compress_ratios": [4, 1e300]})");
  check_says(odd, "values (its size needs a list of whole numbers)");
}

TEST_CASE("M13: A feature beyond 64 bits is refused as any other", "[exchange]") {
  const std::string refusal = hf_refusal(R"({"model_type": "deepseek_v4", "hidden_size": 1048576,
    "num_hidden_layers": 1048576, "num_attention_heads": 1048576, "head_dim": 1048576,
    "o_groups": 1048576, "o_lora_rank": 1048576})");
  check_says(refusal,
             "low rank (more than 9223372036854775807 parameters and more than "
             "9223372036854775807 FLOPs per token forward in all 1048576 layers)");
}

}  // namespace shardsim::test

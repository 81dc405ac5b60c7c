#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "strategies/model/layer_options.hpp"

#include "scenarios/scenario.hpp"

#include "tests/exchange/exchange_fixture.hpp"

// Hugging Face's files of linear-attention hybrids, and of models with experts in some layers.
namespace shardsim::test {

namespace {

struct PublishedHybrid {
  const char* file;
  std::int64_t parameters;
  std::int64_t choice_biases = 0;  // In the published count; nothing trains them.
  const char* layers;              // The first eight, see hybrid_letters.
  std::int64_t attention_layers;
};

// A letter per layer. d: gated DeltaNet, m: Mamba-2, a: attention, n: attention without rotary
// positions; in upper case with experts. Layers of one branch: 1 is Mamba-2, 2 attention without
// rotary positions, 3 with them, - an MLP, E experts.
std::string hybrid_letters(const ModelSpec& model) {
  std::string letters;
  for (std::int64_t i = 0; i < model.num_layers; ++i) {
    const LayerSpec layer = model.layers.empty() ? LayerSpec{} : model.layer(i);
    const Mixer mixer = model.mixer_of(i);
    if (mixer == Mixer::none) {
      letters += model.has_experts(i) ? 'E' : '-';
    } else if (layer.feed_forward == FeedForward::none) {
      letters += mixer == Mixer::mamba ? '1' : layer.rotary ? '3' : '2';
    } else {
      const char letter = mixer == Mixer::delta_net                ? 'd'
                          : mixer == Mixer::mamba                  ? 'm'
                          : !model.layers.empty() && !layer.rotary ? 'n'
                                                                   : 'a';
      letters += model.has_experts(i) ? static_cast<char>(letter - 'a' + 'A') : letter;
    }
  }
  return letters;
}

constexpr const char* kSizes = R"({"hidden_size": 64, "intermediate_size": 96, "vocab_size": 100,
  "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
  "num_hidden_layers": 7, )";
constexpr const char* kDeltaSizes = R"("linear_num_key_heads": 2, "linear_num_value_heads": 4,
  "linear_key_head_dim": 8, "linear_value_head_dim": 16, )";
constexpr const char* kNemotronSizes = R"("model_type": "nemotron_h", "mamba_num_heads": 4,
  "mamba_head_dim": 8, "n_groups": 2, "ssm_state_size": 16, "conv_kernel": 4, "chunk_size": 16, )";
constexpr const char* kGraniteSizes = R"("model_type": "granitemoehybrid", "mamba_n_heads": 4,
  "mamba_n_groups": 1, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_chunk_size": 16,
  "shared_intermediate_size": 40, )";

// The model of a small file, whose parameters the importer counts as its scenario does.
ModelSpec small_hybrid(const std::string& more) {
  const TemporaryFolder folder;
  write(folder / "config.json", kSizes + more + "}");
  const Imported imported = import_file({"hf", folder / "config.json"});
  const ModelSpec model = imported.scenario.model;
  INFO(imported.printed.err);
  std::int64_t counted = num_parameters(model);
  if (model.moe_router_bias_update_rate > 0) {
    counted += model.num_experts * model.layers_with_experts();
  }
  CHECK(contains(imported.printed.err, std::to_string(counted) + " parameters"));
  return model;
}

void require_hybrid_refused(const std::string& more, const std::string& said) {
  const TemporaryFolder folder;
  write(folder / "config.json", kSizes + more + "}");
  const Printed printed = shardsim({"import", "hf", folder / "config.json"});
  INFO(printed.err);
  CHECK(printed.exit_code == 2);
  CHECK(contains(printed.err, said));
}

}  // namespace

TEST_CASE("Hybrids have their published numbers of parameters, and layers", "[exchange]") {
  const PublishedHybrid hybrid =
      GENERATE(PublishedHybrid{"qwen3-next-80b-a3b", 79'674'391'296, 0, "DDDADDDA", 12},
               PublishedHybrid{"qwen3.5-27b", 26'895'998'464, 0, "dddaddda", 16},
               PublishedHybrid{"qwen3.5-35b-a3b", 34'660'610'688, 0, "DDDADDDA", 10},
               PublishedHybrid{"qwen3.5-397b-a17b", 396'346'350'336, 0, "DDDADDDA", 15},
               PublishedHybrid{"nemotron-h-56b", 56'324'350'464, 0, "1-1-1-12", 10},
               PublishedHybrid{"nemotron-3-nano", 31'577'940'288, 23 * 128, "1E1E12E1", 6},
               PublishedHybrid{"granite-4.0-h-small", 32'207'337'984, 0, "MMMMMNMM", 4});
  const Imported imported = import_file({"hf", kData + hybrid.file + ".config.json"});
  const ModelSpec& model = imported.scenario.model;
  INFO(imported.printed.err);
  CHECK(contains(imported.printed.err, std::to_string(hybrid.parameters)));
  CHECK(num_parameters(model) == hybrid.parameters - hybrid.choice_biases);
  CHECK(hybrid_letters(model).substr(0, 8) == hybrid.layers);
  CHECK(model.layers_mixed_by(Mixer::attention) == hybrid.attention_layers);
  CHECK(imported.scenario.warnings.empty());
  CHECK_FALSE(contains(imported.printed.err, "not supported"));
}

TEST_CASE("Qwen3.5's parts are fields, and multi-token prediction is stated apart", "[exchange]") {
  const Imported imported = import_file({"hf", kData + "qwen3.5-35b-a3b.config.json"});
  const ModelSpec& model = imported.scenario.model;
  CHECK(model.attention_output_gate);
  CHECK(model.norm_zero_centred);
  CHECK(model.query_key_norm == QueryKeyNorm::per_head);
  CHECK(model.rotary_dim == 64);
  CHECK(model.rope_theta == 1e7);
  CHECK(model.moe_shared_gate);
  CHECK(model.moe_shared_ffn_hidden_size == 512);
  CHECK(model.moe_router_normalised);
  CHECK(model.delta_net == DeltaNetOptions{16, 32, 128, 128, 4});
  CHECK(model.mtp_num_layers == 1);
  const std::string apart =
      std::to_string(num_mtp_parameters(model)) + " parameters beside the model's 34660610688";
  CHECK(contains(imported.printed.err, apart));
  CHECK(contains(imported.printed.err, "needs you  vision_config"));
}

TEST_CASE("Each layer at the end of an interval attends, unless a list says it", "[exchange]") {
  const std::string keys = std::string(kDeltaSizes) + R"("model_type": "qwen3_5_text")";
  CHECK(hybrid_letters(small_hybrid(keys)) == "dddaddd");
  CHECK(hybrid_letters(small_hybrid(keys + R"(, "full_attention_interval": 3)")) == "ddaddad");
  CHECK(hybrid_letters(small_hybrid(keys + R"(, "full_attention_interval": 3, "layer_types":
    ["full_attention", "linear_attention", "linear_attention", "linear_attention",
     "linear_attention", "linear_attention", "full_attention"])")) == "addddda");
  CHECK(small_hybrid(keys).attention_output_gate);
  CHECK_FALSE(small_hybrid(keys + R"(, "attn_output_gate": false)").attention_output_gate);
  CHECK(small_hybrid(keys).rotary_dim == 4);
  // Its prediction attends, and the last layer does not.
  CHECK(small_hybrid(keys + R"(, "mtp_num_hidden_layers": 1)").mtp_num_layers == 0);
  CHECK(small_hybrid(keys + R"(, "mtp_num_hidden_layers": 1, "full_attention_interval": 7)")
            .mtp_num_layers == 1);
  require_hybrid_refused(R"("model_type": "qwen3_next", "num_experts": 4,
    "num_experts_per_tok": 2)",
                         "linear_num_key_heads, linear_num_value_heads");
}

TEST_CASE("Nemotron-H's layers have one branch, by letters or names", "[exchange]") {
  const std::string keys = std::string(kNemotronSizes) +
                           R"("n_routed_experts": 4, "num_experts_per_tok": 2,
    "moe_intermediate_size": 24, "n_shared_experts": 1, "routed_scaling_factor": 2.5,
    "moe_shared_expert_intermediate_size": 40, )";
  const ModelSpec model = small_hybrid(keys + R"("hybrid_override_pattern": "ME*-MEM")");
  CHECK(hybrid_letters(model) == "1E2-1E1");
  CHECK_FALSE(model.layers_cycle);  // A pattern that does not come again is a list.
  CHECK(model.activation == Activation::squared_relu);
  CHECK(model.mamba == MambaOptions{4, 8, 2, 16, 4, 16});
  CHECK(model.moe_router_score == RouterScore::sigmoid);
  CHECK(model.moe_shared_ffn_hidden_size == 40);
  CHECK_FALSE(model.moe_shared_gate);
  CHECK(model.norm_epsilon == 1e-6);
  CHECK(small_hybrid(keys + R"("layer_norm_epsilon": 1e-3, "norm_eps": 1e-5,
    "hybrid_override_pattern": "ME*-MEM")")
            .norm_epsilon == 1e-3);
  CHECK(hybrid_letters(small_hybrid(keys + R"("layers_block_type":
    ["mamba", "moe", "attention", "mlp", "linear_attention", "moe", "full_attention"],
    "hybrid_override_pattern": "MMMMMMM")")) == "1E2-1E2");
  // Without experts there is nothing to say of them.
  CHECK(hybrid_letters(small_hybrid(std::string(kNemotronSizes) +
                                    R"("hybrid_override_pattern": "M-*-M-M")")) == "1-2-1-1");
}

TEST_CASE("A pattern of layers says how many there are, and has known letters", "[exchange]") {
  const TemporaryFolder folder;
  const std::string file = folder / "config.json";
  write(file, R"({"hidden_size": 64, "intermediate_size": 96, "vocab_size": 100,
    "num_attention_heads": 4, "max_position_embeddings": 64, "time_step_limit": [0.0, Infinity], )" +
                  std::string(kNemotronSizes) + R"("hybrid_override_pattern": "M-*"})");
  const Imported imported = import_file({"hf", file});
  CHECK(imported.scenario.model.num_layers == 3);
  CHECK(contains(imported.printed.err, "limits nothing"));
  const std::string keys = kNemotronSizes;
  require_hybrid_refused(keys + R"("hybrid_override_pattern": "M-*")",
                         "hybrid_override_pattern has 3 entries for 7 layers");
  require_hybrid_refused(keys + R"("hybrid_override_pattern": "M-*-M|M")",
                         "hybrid_override_pattern has the letter \"|\", which is no layer");
  require_hybrid_refused(keys + R"("n_group": 1)", "model needs: hybrid_override_pattern");
  require_hybrid_refused(keys + R"("layers_block_type": ["mamba", "mlp", "conv", "mlp", "mamba",
    "mlp", "mamba"])",
                         "layers of conv");
}

TEST_CASE("Infinity is a number only where nothing reads it", "[exchange]") {
  const std::string keys =
      std::string(kNemotronSizes) + R"("hybrid_override_pattern": "M-*-M-M", )";
  require_hybrid_refused(keys + R"("time_step_limit": [0.001, 0.1])",
                         "\"time_step_limit\" is not known here");
  require_hybrid_refused(R"("model_type": "llama", "rope_theta": Infinity)",
                         "\"rope_theta\" is the number Infinity, not finite");
  require_hybrid_refused(R"("model_type": "llama", "rope_theta": NaN)", "numbers are finite");
}

TEST_CASE("What Mamba-2 and its layers cannot be here is refused by name", "[exchange]") {
  const std::string keys =
      std::string(kNemotronSizes) + R"("hybrid_override_pattern": "M-*-M-M", )";
  require_hybrid_refused(keys + R"("use_bias": true)", "use_bias: biases of the projections");
  require_hybrid_refused(keys + R"("use_conv_bias": false)",
                         "use_conv_bias false: a convolution of Mamba-2 without biases");
  require_hybrid_refused(keys + R"("mamba_hidden_act": "relu")", "mamba_hidden_act relu");
  require_hybrid_refused(std::string(kNemotronSizes) + R"("hybrid_override_pattern": "MEMEMEM",
    "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
    "moe_shared_expert_intermediate_size": 0, "moe_latent_size": 32, "mlp_bias": true)",
                         "mlp_bias: biases of the projections of moe_latent_size");
}

TEST_CASE("Nemotron 3 Super's experts read latents, and its prediction is left out", "[exchange]") {
  const Imported imported = import_file({"hf", kData + "nemotron-3-super.config.json"});
  const ModelSpec& model = imported.scenario.model;
  INFO(imported.printed.err);
  CHECK(contains(imported.printed.err, "120668707840 parameters"));
  CHECK(num_parameters(model) == 120'668'707'840 - 40 * 512);
  CHECK(model.moe_latent_size == 1024);
  CHECK(model.moe_shared_ffn_hidden_size == 5376);
  CHECK(model.mtp_num_layers == 0);
  CHECK(contains(imported.printed.err, "num_nextn_predict_layers"));
  CHECK(contains(imported.printed.err, "left out: "));
}

TEST_CASE("Granite's hybrids have experts or one MLP, and positions where they say so",
          "[exchange]") {
  const std::string experts = R"("num_local_experts": 4, "num_experts_per_tok": 2, )";
  const std::string types = R"("layer_types": ["mamba", "mamba", "attention", "mamba", "mamba",
    "attention", "mamba"])";
  const ModelSpec model = small_hybrid(kGraniteSizes + experts + types);
  CHECK(hybrid_letters(model) == "MMNMMNM");
  CHECK(model.moe_ffn_hidden_size == 96);
  CHECK(model.moe_shared_ffn_hidden_size == 40);
  CHECK(model.mamba.head_size == 32);  // 2 x 64 over 4 heads.
  CHECK(hybrid_letters(small_hybrid(kGraniteSizes + experts + R"("mamba_d_head": "auto")")) ==
        "MMMMMMM");
  const ModelSpec dense = small_hybrid(std::string(kGraniteSizes) + R"("num_local_experts": 0,
    "num_experts_per_tok": 0, "position_embedding_type": "rope", "rope_theta": 5e6, )" +
                                       types);
  CHECK(hybrid_letters(dense) == "mmammam");
  CHECK(dense.ffn_hidden_size == 40);
  CHECK(dense.rope_theta == 5e6);
  const std::string grouped = R"("model_type": "granitemoehybrid", "mamba_n_heads": 4,
    "mamba_n_groups": 2, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_chunk_size": 16,
    "shared_intermediate_size": 40, "num_local_experts": 0)";
  require_hybrid_refused(grouped, "mamba_n_groups 2: groups under one norm over all heads");
}

TEST_CASE("Each rule of layers with experts has its own phase", "[exchange]") {
  const std::string qwen = R"("model_type": "qwen3_moe", "num_experts": 4,
    "num_experts_per_tok": 2, "moe_intermediate_size": 24, )";
  const std::string deepseek = R"("model_type": "deepseek", "n_routed_experts": 4,
    "num_experts_per_tok": 2, "moe_intermediate_size": 24, )";
  const std::string ernie = R"("model_type": "ernie4_5_moe", "moe_num_experts": 4, "moe_k": 2,
    "moe_intermediate_size": 24, )";
  struct Rule {
    std::string keys;
    const char* layers;
  };
  for (const Rule& rule : {
           Rule{qwen + R"("decoder_sparse_step": 2)", "aAaAaAa"},
           Rule{qwen + R"("decoder_sparse_step": 3)", "aaAaaAa"},
           Rule{qwen + R"("mlp_only_layers": [0, 5])", "aAAAAaA"},
           Rule{qwen + R"("decoder_sparse_step": 2, "mlp_only_layers": [3, 9])", "aAaaaAa"},
           Rule{qwen + R"("mlp_layer_types": ["dense", "sparse", "dense", "dense", "sparse",
                          "sparse", "sparse"])",
                "aAaaAAA"},
           Rule{deepseek + R"("moe_layer_freq": 2)", "AaAaAaA"},
           Rule{deepseek + R"("moe_layer_freq": 3, "first_k_dense_replace": 1)", "aaaAaaA"},
           Rule{deepseek + R"("moe_layer_freq": [0, 1, 1, 0, 1, 1, 1])", "aAAaAAA"},
           Rule{deepseek + R"("moe_layer_freq": 1, "first_k_dense_replace": 3)", "aaaAAAA"},
           Rule{ernie + R"("moe_layer_interval": 2, "moe_layer_start_index": 2)", "aaaAaAa"},
           Rule{ernie + R"("moe_layer_start_index": 1, "moe_layer_end_index": 4)", "aAAAAaa"},
           Rule{ernie + R"("moe_layer_start_index": 1, "moe_layer_end_index": -1)", "aAAAAAA"},
       }) {
    INFO(rule.keys);
    const ModelSpec model = small_hybrid(rule.keys);
    CHECK(hybrid_letters(model) == rule.layers);
    const bool is_run =
        std::string(rule.layers).find('a', std::string(rule.layers).find('A')) == std::string::npos;
    CHECK(model.layers.empty() == is_run);  // first_dense_layers says it, where it can.
  }
  // Zero experts, or no layer of them, leave a dense model.
  const std::string none = R"("model_type": "qwen3_moe", "num_experts": 0)";
  CHECK(hybrid_letters(small_hybrid(none)) == "aaaaaaa");
  CHECK(small_hybrid(none).ffn_hidden_size == 96);
  CHECK(small_hybrid(qwen + R"("decoder_sparse_step": 8)").num_experts == 0);
  require_hybrid_refused(qwen + R"("mlp_layer_types": ["dense"])",
                         "mlp_layer_types has 1 entries for 7 layers");
  require_hybrid_refused(qwen + R"("mlp_layer_types": ["dense", "sparse", "hash_moe", "sparse",
    "sparse", "sparse", "sparse"])",
                         "mlp_layer_types hash_moe");
  require_hybrid_refused(deepseek + R"("moe_layer_freq": [1, 1])",
                         "moe_layer_freq has 2 entries for 7 layers");
}

}  // namespace shardsim::test

#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "strategies/model/layer_options.hpp"

#include "scenarios/field_table.hpp"
#include "scenarios/formats/emit.hpp"
#include "scenarios/load.hpp"
#include "scenarios/scenario.hpp"

#include "tests/exchange/exchange_fixture.hpp"

// Layers in the flags of Megatron-LM, seven of them: read by their phases, and written and read
// again.
namespace shardsim::test {

namespace {

// a, l, m, -: the mixer; wN: a window; n: without rotary positions; s: sinks; d, e: dense, experts.
std::string words_of(const ModelSpec& model) {
  const std::string mixers = "alm-b";
  const std::string feed_forwards = "?de.";
  std::vector<std::string> words;
  for (const LayerSpec& layer : model.each_layer()) {
    std::string word(1, mixers.at(static_cast<std::size_t>(layer.mixer)));
    if (layer.window_size > 0) word += "w" + std::to_string(layer.window_size);
    if (!layer.rotary) word += "n";
    if (layer.sinks) word += "s";
    words.push_back(word + feed_forwards.at(static_cast<std::size_t>(layer.feed_forward)));
  }
  return fmt::format("{}", fmt::join(words, " "));
}

Scenario planned_with(const std::string& model, const std::string& parallelism) {
  const std::string start = R"({"schema_version": 1,
    "system": {"preset": "dgx-h100", "nodes": 1},
    "training": {"global_batch_size": 48, "micro_batch_size": 1},
    "model": {"family": "llama", "num_layers": 7, "hidden_size": 64, "num_attention_heads": 4,
              "vocab_size": 128, "seq_len": 32, )";
  return load_scenario_text(
      start + model + R"(}, "parallelism": {"bucket_bytes": 40000, "first_bucket_bytes": 40000)" +
          (parallelism.empty() ? "" : ", ") + parallelism + "}}",
      "test.json");
}

Scenario imported_from(const std::string& text) {
  const TemporaryFolder folder;
  write(folder / "run.sh", text);
  return import_file({"megatron", folder / "run.sh", "--gpus", "8"}).scenario;
}

// The scenario comes back from its flags, which have no note but on the layout.
void require_return(const std::string& model, const std::string& parallelism = "") {
  const Scenario planned = planned_with(model, parallelism);
  const std::string flags = emit_megatron(planned).text;
  INFO(flags);
  CHECK(flags.find("# ") == flags.rfind("# "));
  const Scenario back = imported_from(flags + " --padded-vocab-size 128");
  CHECK(words_of(back.model) == words_of(planned.model));
  CHECK(num_parameters(back.model) == num_parameters(planned.model));
  CHECK(num_mtp_parameters(back.model) == num_mtp_parameters(planned.model));
  CHECK(back.parallelism.stage_layers == planned.parallelism.stage_layers);
  CHECK(back.parallelism.vpp == planned.parallelism.vpp);
  // Lists say the same in other words.
  const std::set<std::string> others = {"model.layers_cycle", "model.first_dense_layers"};
  int compared = 0;
  for (const Field& field : model_fields()) {
    if (!field.get || others.count(field.path) > 0) continue;
    if (field.acts && !field.acts(planned)) continue;
    INFO(field.path);
    CHECK(field.get(back) == field.get(planned));
    ++compared;
  }
  CHECK(compared > 20);
}

const std::string kBase =
    "torchrun pretrain_gpt.py --num-layers 7 --hidden-size 64 --ffn-hidden-size 96 "
    "--num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 --micro-batch-size 1 "
    "--global-batch-size 8 --swiglu --normalization RMSNorm --disable-bias-linear "
    "--padded-vocab-size 128 --bf16 --attention-dropout 0 --hidden-dropout 0 ";
const std::string kRotary = kBase + "--position-embedding-type rope ";
const std::string kExperts = "--num-experts 4 --moe-router-topk 2 --moe-grouped-gemm ";

std::string words_from(const std::string& flags) {
  return words_of(imported_from(kRotary + flags).model);
}

Printed refused(const std::string& flags) {
  const TemporaryFolder folder;
  write(folder / "run.sh", flags);
  Printed printed = shardsim({"import", "megatron", folder / "run.sh", "--gpus", "8"});
  CHECK(printed.exit_code == 2);
  return printed;
}

const std::string kMamba =
    R"("mamba_num_heads": 8, "mamba_head_dim": 24, "mamba_num_groups": 2, "mamba_state_size": 12)";
const std::string kDeltaNet =
    R"("linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 12,
       "linear_value_head_dim": 20, "linear_conv_kernel": 3)";
const std::string kSomeExperts =
    R"("num_experts": 4, "num_experts_per_token": 2, "moe_ffn_hidden_size": 40)";
const std::string kNemotron =
    R"("activation": "squared_relu", "layers": [{"mixer": "mamba", "feed_forward": "none"},
       {"mixer": "none", "feed_forward": "experts", "repeats": 2},
       {"rotary": false, "feed_forward": "none"}, {"mixer": "mamba", "feed_forward": "none"},
       {"mixer": "none", "feed_forward": "experts"}, {"mixer": "mamba", "feed_forward": "none"}], )" +
    kMamba + ", " + kSomeExperts;

}  // namespace

TEST_CASE("M13: Each frequency of Megatron-LM has a phase of its own", "[exchange]") {
  const std::string window = "--window-size '(4,0)' ";
  CHECK(words_from(window) == "aw5d aw5d aw5d aw5d aw5d aw5d aw5d");
  CHECK(words_from(window + "--window-attn-skip-freq 3") == "aw5d aw5d ad aw5d aw5d ad aw5d");
  CHECK(words_from("--window-size 4,0 --window-attn-skip-freq '([1]+[0]*2)*2+[1]'") ==
        "aw5d ad ad aw5d ad ad aw5d");
  CHECK(words_from("--window-size '(-1,0)'") == "ad ad ad ad ad ad ad");
  CHECK(words_from("--no-rope-freq 7") == "ad ad ad ad ad ad and");
  CHECK(words_from("--no-rope-freq 0") == "ad ad ad ad ad ad ad");
  CHECK(words_from("--no-rope-freq '[1,0,0,0,0,0,1]'") == "and ad ad ad ad ad and");
  CHECK(words_from("--softmax-type learnable") == "asd asd asd asd asd asd asd");
  CHECK(words_from("--experimental-attention-variant gdn --linear-attention-freq 4") ==
        "ld ld ld ad ld ld ld");
  CHECK(words_from(kExperts + "--moe-layer-freq 3") == "ae ad ad ae ad ad ae");
  CHECK(words_of(imported_from(kBase + "--position-embedding-type none").model) ==
        "and and and and and and and");
}

TEST_CASE("Experts are in slices where they can be cut, and else somebody is told", "[exchange]") {
  const std::string cut =
      kRotary + kExperts + "--tensor-model-parallel-size 2 --sequence-parallel ";
  const auto etp_from = [](const std::string& flags, const std::string& said) {
    const TemporaryFolder folder;
    write(folder / "run.sh", flags);
    const Printed printed = shardsim({"import", "megatron", folder / "run.sh", "--gpus", "8"});
    INFO(flags << printed.err);
    REQUIRE(printed.exit_code == 0);
    CHECK(contains(printed.err, said));
    return load_scenario_text(printed.out, "imported.json").parallelism.etp;
  };
  CHECK(etp_from(cut, "Megatron-LM's default is tp") == 2);
  CHECK(etp_from(cut + "--expert-tensor-parallel-size 4", "") == 4);
  CHECK(etp_from(cut + "--expert-tensor-parallel-size 1", "") == 1);
  std::string biased = cut;
  const std::string unbiased = "--disable-bias-linear ";
  biased.erase(biased.find(unbiased), unbiased.size());
  CHECK(etp_from(biased, "experts with biases are not cut here") == 1);
  CHECK(etp_from(cut + "--optimizer dist_muon", "muon takes whole matrices of experts here") == 1);
}

TEST_CASE("Several flags of layers are one list", "[exchange]") {
  CHECK(words_from(kExperts + "--experimental-attention-variant gated_delta_net "
                              "--linear-attention-freq 2 --moe-layer-freq '([0]*2+[1]*5)' "
                              "--window-size 7,0 --softmax-type learnable") ==
        "ld aw8sd le aw8se le aw8se le");
}

TEST_CASE("A pattern's letters are layers of one branch", "[exchange]") {
  const std::string letters = "--hybrid-override-pattern 'M-*EG-M' --mamba-num-groups 2 ";
  const Scenario s = imported_from(kRotary + kExperts + letters);
  CHECK(words_of(s.model) == "m. -d a. -e l. -d m.");
  // Megatron-LM's defaults: 2 x 64 are two heads of 64.
  CHECK(s.model.mamba.num_heads == 2);
  CHECK(s.model.mamba.head_size == 64);
  CHECK(s.model.mamba.num_groups == 2);
  CHECK(s.model.mamba.state_size == 128);
  CHECK(s.model.delta_net.key_heads == 16);
  CHECK(s.model.delta_net.value_heads == 32);
}

TEST_CASE("Biases of the projections of latent experts are refused, and noted", "[exchange]") {
  std::string biased = kRotary;
  const std::string flag = "--disable-bias-linear";
  biased.erase(biased.find(flag), flag.size());
  const std::string experts = " --num-experts 4 --moe-router-topk 2 --moe-ffn-hidden-size 40";
  CHECK(imported_from(biased + experts).model.moe_expert_bias);
  CHECK(imported_from(kRotary + experts + " --moe-latent-size 16").model.moe_latent_size == 16);
  CHECK(contains(refused(biased + experts + " --moe-latent-size 16").err,
                 "moe_latent_size 16 without disable_bias_linear: biases of its projections, 80 "
                 "parameters in each layer with experts"));
  CHECK(contains(
      emit_megatron(planned_with(kSomeExperts + R"(, "moe_latent_size": 24, "moe_expert_bias": true,
                       "query_key_value_bias": true, "attention_out_bias": true)",
                                 ""))
          .text,
      "# Megatron-LM's projections of moe_latent_size have biases"));
}

TEST_CASE("Layers and choices of attention go through Megatron-LM's flags and come back",
          "[exchange]") {
  const std::string dense = R"("ffn_hidden_size": 96, )";
  for (const char* model :
       {R"("layers": [{"attention": "sliding", "window_size": 5, "sinks": true}, {"sinks": true}],
           "layers_cycle": true)",
        R"("layers": [{"attention": "sliding", "window_size": 5, "repeats": 7}])",
        R"("layers": [{"repeats": 3}, {"rotary": false}], "layers_cycle": true)",
        R"("layers": [{"rotary": false, "repeats": 7}])",
        R"("attention_output_gate": true, "head_dim": 24, "query_key_norm": "per_head")",
        R"("query_key_norm": "weightless", "attention_scale": 0.3)"}) {
    require_return(dense + model);
  }
  require_return(dense + kSomeExperts + R"(, "moe_latent_size": 24)");
  require_return(dense + kDeltaNet + R"(, "layers": [{"mixer": "delta_net", "repeats": 3},
    {"attention": "sliding", "window_size": 9}], "layers_cycle": true,
    "attention_output_gate": true)");
  require_return(dense + kSomeExperts + ", " + kDeltaNet + R"(, "layers": [
    {"sinks": true, "feed_forward": "dense"},
    {"mixer": "delta_net", "feed_forward": "experts", "repeats": 3},
    {"sinks": true, "feed_forward": "dense"}, {"sinks": true, "feed_forward": "experts"},
    {"mixer": "delta_net", "feed_forward": "dense"}])");
}

TEST_CASE("Layers of one branch go through a pattern and come back", "[exchange]") {
  require_return(kNemotron);
  require_return(kNemotron + R"(, "mtp_num_layers": 2)");
  require_return(kNemotron, R"("pp": 2, "stage_layers": [5, 2])");
  require_return(kNemotron, R"("pp": 2, "vpp": 3, "stage_layers": [1, 1, 1, 1, 1, 2])");
  require_return(kDeltaNet + R"(, "ffn_hidden_size": 96, "layers": [
    {"mixer": "none", "repeats": 2}, {"feed_forward": "none"},
    {"mixer": "delta_net", "feed_forward": "none"},
    {"attention": "sliding", "window_size": 4, "rotary": false, "feed_forward": "none"},
    {"mixer": "none"}, {"feed_forward": "none"}])");
  require_return(R"("kv_lora_rank": 24, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8,
    "value_head_dim": 20, "ffn_hidden_size": 96, "layers": [{"feed_forward": "none"}, {"mixer": "none", "repeats": 2},
    {"feed_forward": "none"}, {"mixer": "none", "repeats": 3}])");
  const std::string flags = emit_megatron(planned_with(kNemotron + R"(, "mtp_num_layers": 1)",
                                                       R"("pp": 2, "stage_layers": [5, 2])"))
                                .text;
  CHECK(contains(flags, "--hybrid-layer-pattern='MEE*M|EM/M'"));
  CHECK(contains(flags, "pretrain_hybrid.py"));
  CHECK(contains(flags, "--position-embedding-type none"));
  for (const char* other : {"--num-layers", "--ffn-hidden-size", "--moe-layer-freq", "--no-rope"}) {
    INFO(other);
    CHECK_FALSE(contains(flags, other));
  }
}

// A layer of two branches is two layers there, with the same parameters.
TEST_CASE("What Megatron-LM's layers cannot be is said once", "[exchange]") {
  const std::string mamba = R"("ffn_hidden_size": 96, "mamba_conv_kernel": 3,
    "mamba_chunk_size": 64, "layers": [{"mixer": "mamba", "repeats": 6}, {}], )" +
                            kMamba;
  const Scenario planned = planned_with(mamba, "");
  const std::string flags = emit_megatron(planned).text;
  CHECK(contains(flags, "--hybrid-layer-pattern='M-M-M-M-M-M-*-'"));
  for (const char* note :
       {"7 layers are written as 14", "mamba_conv_kernel 3", "mamba_chunk_size 64"}) {
    INFO(note);
    CHECK(flags.find(note) != std::string::npos);
    CHECK(flags.find(note) == flags.rfind(note));
  }
  // The convolution there has four positions.
  const std::int64_t more = 6 * (8 * 24 + 2 * 2 * 12);
  CHECK(num_parameters(imported_from(flags + " --padded-vocab-size 128").model) ==
        num_parameters(planned.model) + more);
  const std::pair<const char*, const char*> others[] = {
      {R"({"attention": "chunked", "chunk_size": 4})", "has no chunked attention"},
      {R"({"rope_theta": 5})", "has one rotary base"},
      {R"({"sinks": true})", "has sinks in all layers or none"},
      {R"({"head_dim": 32})", "has the same heads in all layers"},
      {R"({"attention": "sliding", "window_size": 4},
          {"attention": "sliding", "window_size": 8})",
       "has one window for all layers"}};
  for (const auto& [layers, note] : others) {
    const std::string text =
        emit_megatron(
            planned_with(
                fmt::format(R"("ffn_hidden_size": 96, "layers": [{}, {{}}], "layers_cycle": true)",
                            layers),
                ""))
            .text;
    INFO(text);
    CHECK(text.find(note) != std::string::npos);
    CHECK(text.find(note) == text.rfind(note));
  }
}

TEST_CASE("Megatron-LM's features that no scenario has are refused by name", "[exchange]") {
  const Printed all =
      refused(kRotary + kExperts +
              "--qk-clip --window-size '(5,3)' "
              "--softmax-type off-by-one --no-rope-freq 3 --experimental-attention-variant dsa");
  for (const char* words :
       {"qk_clip: weights of queries", "window_size (5,3)", "softmax_type off-by-one",
        "no_rope_freq 3, which does not divide 7 layers",
        "experimental_attention_variant dsa (here it is gated_delta_net)"}) {
    INFO(words << "\n" << all.err);
    CHECK(contains(all.err, words));
  }
  CHECK(contains(refused(kRotary + "--experimental-attention-variant gdn").err,
                 "gdn without linear_attention_freq"));
  CHECK(contains(refused(kRotary + "--window-size 5,0 --window-attn-skip-freq 0").err,
                 "window_attn_skip_freq 0 (here a number, or lists of 0 and 1"));
  const Printed letters = refused(kRotary + "--hybrid-layer-pattern 'D*+-/-*/-*'");
  CHECK(contains(letters.err, "layers of sparse attention (D)"));
  CHECK(contains(letters.err, "attention (*) and latent attention (+) in one model"));
  CHECK(contains(letters.err, "multi-token prediction by -*"));
  const std::string pattern = kRotary + "--hybrid-layer-pattern ";
  CHECK(contains(refused(pattern + "'G-*' --experimental-attention-variant gdn2").err,
                 "experimental_attention_variant gdn2 (here it is gated_delta_net)"));
  CHECK(contains(refused(pattern + "'M-X'").err, "the letter \"X\", which is no layer"));
  CHECK(contains(refused(pattern + "'/M'").err, "has no layers"));
  CHECK(contains(refused(pattern + "'M-/M/-'").err, "depths of multi-token prediction"));
  CHECK(contains(refused(pattern + "'*-|*-|*-' --pipeline-model-parallel-size 2").err,
                 "3 stages, which 2 pipeline ranks do not divide"));
  // Layers of a gpt2 are alike.
  const std::string gpt2 =
      "--num-layers 7 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --vocab-size 128 "
      "--max-position-embeddings 32 --micro-batch-size 1 --global-batch-size 8 ";
  CHECK(contains(refused(gpt2 + "--window-size 3,0 --attention-output-gate").err,
                 "window_size: layers of a gpt2 are of one kind"));
}

}  // namespace shardsim::test

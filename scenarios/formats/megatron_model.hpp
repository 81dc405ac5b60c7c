#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "strategies/model/linear_mixer_options.hpp"

#include "scenarios/formats/megatron.hpp"

// The parts of a model in Megatron-LM's arguments. Names and meanings: its
// megatron/training/arguments.py, megatron/core/transformer/transformer_config.py and
// megatron/core/models/hybrid/hybrid_layer_allocation.py.
namespace shardsim {

namespace megatron {

// Layers.
inline constexpr const char* kPattern = "hybrid_layer_pattern";
inline constexpr const char* kOldPattern = "hybrid_override_pattern";  // Deprecated.
inline constexpr const char* kWindow = "window_size";
inline constexpr const char* kWindowFrequency = "window_attn_skip_freq";
inline constexpr const char* kNoRotaryFrequency = "no_rope_freq";
inline constexpr const char* kExpertFrequency = "moe_layer_freq";
inline constexpr const char* kSoftmax = "softmax_type";
inline constexpr const char* kVariant = "experimental_attention_variant";
inline constexpr const char* kLinearFrequency = "linear_attention_freq";
/// A value of the variant, which is since called gdn.
inline constexpr const char* kDeltaNet = "gated_delta_net";

/// A size of gated DeltaNet or Mamba-2, and Megatron-LM's default; 0: see where it is read.
template <class Options>
struct MixerSize {
  NamePair names;
  std::int64_t Options::*member;
  std::int64_t otherwise;
};

inline constexpr std::array kDeltaNetSizes = {
    MixerSize<DeltaNetOptions>{
        {"linear_num_key_heads", "model.linear_num_key_heads"}, &DeltaNetOptions::key_heads, 16},
    MixerSize<DeltaNetOptions>{{"linear_num_value_heads", "model.linear_num_value_heads"},
                               &DeltaNetOptions::value_heads,
                               32},
    MixerSize<DeltaNetOptions>{
        {"linear_key_head_dim", "model.linear_key_head_dim"}, &DeltaNetOptions::key_size, 128},
    MixerSize<DeltaNetOptions>{{"linear_value_head_dim", "model.linear_value_head_dim"},
                               &DeltaNetOptions::value_size,
                               128},
    MixerSize<DeltaNetOptions>{
        {"linear_conv_kernel_dim", "model.linear_conv_kernel"}, &DeltaNetOptions::conv_kernel, 4}};

inline constexpr std::array kMambaSizes = {
    MixerSize<MambaOptions>{
        {"mamba_head_dim", "model.mamba_head_dim"}, &MambaOptions::head_size, 64},
    MixerSize<MambaOptions>{
        {"mamba_num_heads", "model.mamba_num_heads"}, &MambaOptions::num_heads, 0},
    MixerSize<MambaOptions>{
        {"mamba_num_groups", "model.mamba_num_groups"}, &MambaOptions::num_groups, 8},
    MixerSize<MambaOptions>{
        {"mamba_state_dim", "model.mamba_state_size"}, &MambaOptions::state_size, 128}};

}  // namespace megatron

/// Layers of one branch each, by letters: M Mamba-2, G gated DeltaNet, * attention, + latent
/// attention, D sparse attention, - an MLP, E experts. "M-M*|M-ME/*-/*-" has two stages, and two
/// depths of multi-token prediction behind them.
struct MegatronPattern {
  std::string key;                   ///< The argument; "" without a pattern.
  std::string letters;               ///< All layers, in order.
  std::vector<std::int64_t> stages;  ///< Layers of each; empty without bars.
  std::string depth;                 ///< Letters of one depth.
  std::int64_t num_depths = 0;

  [[nodiscard]] bool is_there() const { return !key.empty(); }
  [[nodiscard]] bool has(char letter) const { return letters.find(letter) != std::string::npos; }
  [[nodiscard]] std::int64_t num_layers() const {
    return static_cast<std::int64_t>(letters.size());
  }
};

/// Throws ScenarioError E1332: a letter that is none, no layers, or depths that differ.
[[nodiscard]] MegatronPattern read_megatron_pattern(MegatronArguments& arguments);

/// A block, as the arguments describe it.
struct MegatronBlocks {
  bool swiglu = false;
  bool quick_geglu = false;
  bool squared_relu = false;
  double clamp = 0.0;     ///< activation_func_clamp_value
  double offset = 0.0;    ///< glu_linear_offset
  bool lettered = false;  ///< Layers are letters of a pattern.
  bool rotary = false;
  bool without_positions = false;
  bool root_mean_square = false;
  bool zero_centred = false;
  bool biased = false;

  [[nodiscard]] bool is_gated() const { return swiglu || quick_geglu; }
  /// Else it is a gpt2's.
  [[nodiscard]] bool is_llama() const {
    return is_gated() || squared_relu || rotary || without_positions || root_mean_square ||
           lettered;
  }
};

[[nodiscard]] MegatronBlocks read_megatron_blocks(MegatronArguments& arguments,
                                                  const MegatronPattern& pattern);
/// The family, its activation, norms and biases. Adds to `limits` what no scenario can express.
void import_megatron_blocks(const MegatronBlocks& blocks, Import& import,
                            std::vector<std::string>& limits);

/// Mixers, feed-forwards, windows, sinks and positions of all layers, as model.layers, and sizes of
/// mixers that are recurrences. Adds to `limits` what no scenario can express.
/// REQUIRES: sizes of the model, of latents and the number of experts are imported.
void import_megatron_layers(MegatronArguments& arguments, const MegatronBlocks& blocks,
                            const MegatronPattern& pattern, Import& import,
                            std::vector<std::string>& limits);

/// Latent attention, if the run has it: returns whether it does. Adds what no scenario can express.
[[nodiscard]] bool import_megatron_latents(MegatronArguments& arguments,
                                           const MegatronPattern& pattern, Import& import,
                                           std::vector<std::string>& limits);

}  // namespace shardsim

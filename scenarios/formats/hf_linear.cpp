#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "scenarios/formats/foreign_object.hpp"
#include "scenarios/formats/hf_model.hpp"
#include "scenarios/formats/import.hpp"
#include "scenarios/linear_spec.hpp"

// Gated DeltaNet and Mamba-2 from Hugging Face's config.json: Qwen3-Next's and Qwen3.5's, and
// Nemotron-H's, Granite 4's and Falcon-H1's. Sources: their configuration and modeling files in
// transformers.
namespace shardsim {

namespace {

// A size under the names of NemotronHConfig, and of GraniteMoeHybridConfig and FalconH1Config, and
// here.
struct MambaSize {
  std::array<const char*, 2> keys;
  const char* path;
  std::int64_t MambaOptions::*member;
  std::int64_t otherwise;  // 0: the file must say it.
};

constexpr std::array kMambaSizes = {
    MambaSize{
        {"mamba_num_heads", "mamba_n_heads"}, "model.mamba_num_heads", &MambaOptions::num_heads, 0},
    MambaSize{
        {"mamba_head_dim", "mamba_d_head"}, "model.mamba_head_dim", &MambaOptions::head_size, 0},
    MambaSize{
        {"n_groups", "mamba_n_groups"}, "model.mamba_num_groups", &MambaOptions::num_groups, 0},
    MambaSize{{"ssm_state_size", "mamba_d_state"},
              "model.mamba_state_size",
              &MambaOptions::state_size,
              0},
    MambaSize{
        {"conv_kernel", "mamba_d_conv"}, "model.mamba_conv_kernel", &MambaOptions::conv_kernel, 4},
    MambaSize{
        {"chunk_size", "mamba_chunk_size"}, "model.mamba_chunk_size", &MambaOptions::chunk_size, 0},
};

struct DeltaNetSize {
  const char* key;
  const char* path;
  std::int64_t DeltaNetOptions::*member;
  std::int64_t otherwise;
};

constexpr std::array kDeltaNetSizes = {
    DeltaNetSize{"linear_num_key_heads", "model.linear_num_key_heads", &DeltaNetOptions::key_heads,
                 0},
    DeltaNetSize{"linear_num_value_heads", "model.linear_num_value_heads",
                 &DeltaNetOptions::value_heads, 0},
    DeltaNetSize{"linear_key_head_dim", "model.linear_key_head_dim", &DeltaNetOptions::key_size, 0},
    DeltaNetSize{"linear_value_head_dim", "model.linear_value_head_dim",
                 &DeltaNetOptions::value_size, 0},
    DeltaNetSize{"linear_conv_kernel_dim", "model.linear_conv_kernel",
                 &DeltaNetOptions::conv_kernel, 4},
};

std::vector<std::string> names_of(const MambaSize& size) {
  return {size.keys.begin(), size.keys.end()};
}

// Heads share `expand` times the stream's width, where the file leaves their size to that.
std::int64_t usual_head_size(ForeignObject& config, const HfModel& model) {
  std::int64_t expand = 2;
  for (const char* key : {"expand", "mamba_expand"}) {
    if (const auto factor = config.integer(key, kForeignDegree)) expand = *factor;
  }
  return std::max<std::int64_t>(1, expand * model.hidden / model.mamba.num_heads);
}

void read_mamba(ForeignObject& config, const HfFamily& family, HfRequired& required,
                HfModel& model) {
  for (const MambaSize& size : kMambaSizes) {
    const bool is_usual = size.member == &MambaOptions::head_size && !family.one_branch;
    std::vector<std::string> keys = names_of(size);
    if (!family.one_branch) std::swap(keys.front(), keys.back());  // Its own name is missed.
    // Heads have been read before their size.
    model.mamba.*size.member = required.integer(
        keys, kForeignDegree, is_usual ? usual_head_size(config, model) : size.otherwise);
  }
}

// No limit at all: from 0 to what Python writes as Infinity, or near it. Another one stays unread.
bool is_unlimited(const ForeignObject& config) {
  if (config.written("time_step_limit").empty()) return false;
  const JsonValue& limit = config.value_of("time_step_limit");
  if (!limit.is_array() || limit.array().size() != 2) return false;
  constexpr double kEndless = 1e30;
  return limit.array().front().number() == 0.0 &&
         limit.array().back().number().value_or(0.0) > kEndless;
}

}  // namespace

void read_hf_linear(ForeignObject& config, const HfFamily& family, HfRequired& required,
                    HfModel& model) {
  if (family.linear == Mixer::mamba) return read_mamba(config, family, required, model);
  for (const DeltaNetSize& size : kDeltaNetSizes) {
    model.delta_net.*size.member = required.integer({size.key}, kForeignDegree, size.otherwise);
  }
}

std::int64_t hf_linear_parameters(const HfModel& model, Mixer mixer) {
  ModelSpec spec;
  spec.hidden_size = model.hidden;
  spec.delta_net = model.delta_net;
  spec.mamba = model.mamba;
  return mixer == Mixer::mamba ? mamba_parameters(spec) : delta_net_parameters(spec);
}

void write_hf_linear(ForeignObject& config, const HfModel& model, Import& import) {
  if (model.mixes_by(Mixer::delta_net)) {
    for (const DeltaNetSize& size : kDeltaNetSizes) {
      take_under(config, {size.key}, size.path, model.delta_net.*size.member, import);
    }
  }
  if (!model.mixes_by(Mixer::mamba)) return;
  for (const MambaSize& size : kMambaSizes) {
    const bool is_left = size.member == &MambaOptions::head_size && config.is_auto(size.keys[1]);
    if (is_left) {
      import.derive(config.at(size.keys[1]), size.path, model.mamba.*size.member,
                    config.written("mamba_d_ssm").empty()
                        ? "mamba_expand x hidden_size / mamba_n_heads"
                        : "mamba_d_ssm / mamba_n_heads");
    } else {
      take_under(config, names_of(size), size.path, model.mamba.*size.member, import);
    }
  }
  if (is_unlimited(config)) {
    (void)config.has("time_step_limit");
    import.ignore(config.at("time_step_limit"), "limits nothing");
  }
  if (model.turns() || config.written("rope_theta").empty()) return;
  import.ignore(config.at("rope_theta"), "attention here has no rotary positions");
}

void add_hf_linear_limits(ForeignObject& config, const HfFamily& family, const HfModel& model,
                          std::vector<std::string>& list) {
  (void)config.has("mtp_layers_block_type");
  (void)config.has("mtp_hybrid_override_pattern");
  if (family.linear != Mixer::mamba) return;
  for (const char* key : {"use_bias", "mamba_proj_bias"}) {
    if (config.truth(key).value_or(false)) {
      list.push_back(fmt::format("{}: biases of the projections of Mamba-2", key));
    }
  }
  for (const char* key : {"use_conv_bias", "mamba_conv_bias"}) {
    if (!config.truth(key).value_or(true)) {
      list.push_back(fmt::format("{} false: a convolution of Mamba-2 without biases", key));
    }
  }
  const std::string activation = config.text("mamba_hidden_act").value_or("silu");
  if (activation != "silu" && activation != "swish") {
    list.push_back(fmt::format("mamba_hidden_act {} (here it is silu)", activation));
  }
  if (family.one_norm && model.mamba.num_groups > 1) {
    list.push_back(fmt::format(
        "mamba_n_groups {}: groups under one norm over all heads (here each has its own)",
        model.mamba.num_groups));
  }
}

}  // namespace shardsim

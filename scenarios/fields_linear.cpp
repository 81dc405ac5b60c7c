#include "strategies/model/layer_options.hpp"

#include "scenarios/field_table.hpp"

// Gated DeltaNet and Mamba-2, the mixers that are recurrences.
namespace shardsim {

namespace {

template <Mixer kMixer>
bool is_mixed_by(const Scenario& s) {
  return !s.model.layers.empty() && s.model.layers_mixed_by(kMixer) > 0;
}

template <typename Member>
Field delta_field(const char* path, Member member) {
  return field(path, &Scenario::model, &ModelSpec::delta_net, member)
      .acts_when("a layer has mixer delta_net", is_mixed_by<Mixer::delta_net>);
}

template <typename Member>
Field mamba_field(const char* path, Member member) {
  return field(path, &Scenario::model, &ModelSpec::mamba, member)
      .acts_when("a layer has mixer mamba", is_mixed_by<Mixer::mamba>);
}

}  // namespace

// A table with a row per field, not a function to follow. NOLINTNEXTLINE(readability-function-size)
std::vector<Field> linear_fields() {
  using D = DeltaNetOptions;
  using M = MambaOptions;
  return {
      delta_field("model.linear_num_key_heads", &D::key_heads)
          .range(0, kTwoTo14)
          .or_else("0")
          .sourced()
          .doc("Heads of queries and keys of gated DeltaNet; its layers need them."),
      delta_field("model.linear_num_value_heads", &D::value_heads)
          .range(0, kTwoTo14)
          .or_else("0")
          .sourced()
          .doc("Its heads of values, a multiple of those of keys."),
      delta_field("model.linear_key_head_dim", &D::key_size)
          .range(0, kTwoTo14)
          .or_else("0")
          .sourced()
          .doc("Elements of a query or key head of gated DeltaNet."),
      delta_field("model.linear_value_head_dim", &D::value_size)
          .range(0, kTwoTo14)
          .or_else("0")
          .sourced()
          .doc("Elements of its value heads."),
      delta_field("model.linear_conv_kernel", &D::conv_kernel)
          .range(1, 64)
          .or_else("4")
          .sourced()
          .same_as({{"Hugging Face", "linear_conv_kernel_dim"}})
          .doc("Positions that its causal convolution reads."),
      mamba_field("model.mamba_num_heads", &M::num_heads)
          .range(0, kTwoTo14)
          .or_else("0")
          .sourced()
          .same_as({{"Hugging Face", "mamba_n_heads"}})
          .doc("Heads of Mamba-2; its layers need them."),
      mamba_field("model.mamba_head_dim", &M::head_size)
          .range(0, kTwoTo14)
          .or_else("0")
          .sourced()
          .same_as({{"Hugging Face", "mamba_d_head"}})
          .doc("Elements of a head of Mamba-2."),
      mamba_field("model.mamba_num_groups", &M::num_groups)
          .range(1, kTwoTo14)
          .or_else("1")
          .sourced()
          .same_as({{"Hugging Face", "mamba_n_groups"}})
          .doc("Groups of its heads, which share B and C; they divide the heads."),
      mamba_field("model.mamba_state_size", &M::state_size)
          .range(0, kTwoTo14)
          .or_else("0")
          .sourced()
          .same_as({{"Megatron-LM", "mamba_state_dim"},
                    {"Hugging Face", "ssm_state_size"},
                    {"Hugging Face", "mamba_d_state"}})
          .doc("Columns of the state of each of its heads."),
      mamba_field("model.mamba_conv_kernel", &M::conv_kernel)
          .range(1, 64)
          .or_else("4")
          .sourced()
          .same_as({{"Hugging Face", "mamba_d_conv"}})
          .doc("Positions that its causal convolution reads."),
      mamba_field("model.mamba_chunk_size", &M::chunk_size)
          .range(1, kTwoTo20)
          .unit("tokens")
          .or_else("128")
          .sourced()
          .doc("Positions of a chunk of its scan. Results do not depend on it, but for roundings; "
               "work and memory do."),
      mamba_field("model.mamba_norm", &M::has_norm)
          .or_else("true")
          .same_as({{"Hugging Face", "mamba_rms_norm"}})
          .doc("An RMS norm of each group stands behind the gate of what its scan returns. "
               "Falcon-H1 has none."),
      mamba_field("model.mamba_z_scale", &M::z_scale)
          .above(0, 1e6)
          .or_else("1")
          .foreign({{"Hugging Face", "ssm_multipliers"}})
          .doc("Factor of the gate z that its projection makes (Falcon-H1, whose list has all "
               "five)."),
      mamba_field("model.mamba_x_scale", &M::x_scale)
          .above(0, 1e6)
          .or_else("1")
          .doc("The same of x, ahead of the convolution."),
      mamba_field("model.mamba_b_scale", &M::b_scale)
          .above(0, 1e6)
          .or_else("1")
          .doc("The same of B, ahead of the convolution."),
      mamba_field("model.mamba_c_scale", &M::c_scale)
          .above(0, 1e6)
          .or_else("1")
          .doc("The same of C, ahead of the convolution."),
      mamba_field("model.mamba_dt_scale", &M::dt_scale)
          .above(0, 1e6)
          .or_else("1")
          .doc("The same of the time steps dt, ahead of their bias."),
      mamba_field("model.mamba_output_scale", &M::output_scale)
          .above(0, 1e6)
          .or_else("1")
          .same_as({{"Hugging Face", "ssm_out_multiplier"}})
          .doc("Factor of what it returns (Falcon-H1)."),
  };
}

}  // namespace shardsim

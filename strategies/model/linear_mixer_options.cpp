#include "strategies/model/linear_mixer_options.hpp"

#include <initializer_list>

#include "sim/kernel/error.hpp"

#include "strategies/model/make_model.hpp"

namespace shardsim {

namespace {

struct MixerSize {
  const char* name;
  std::int64_t value;
};

void require_sizes(const char* mixer, std::initializer_list<MixerSize> sizes) {
  for (const MixerSize& size : sizes) {
    if (size.value >= 1) continue;
    throw UsageError(
        "E0651", concat(mixer, "'s ", size.name, " is ", size.value, ", it must be at least 1"));
  }
}

void require_multiple(const char* mixer, const MixerSize& of, const MixerSize& divisor) {
  if (of.value % divisor.value == 0) return;
  throw UsageError("E0651", concat(mixer, "'s ", divisor.name, " (", divisor.value,
                                   ") must divide its ", of.name, " (", of.value, ")"));
}

void require_cut(const char* mixer, const MixerSize& size, const ModelOptions& options) {
  if (size.value % options.tensor_parallel == 0) return;
  throw UsageError("E0652",
                   concat("tensor parallelism of degree ", options.tensor_parallel,
                          " cannot divide ", mixer, "'s ", size.name, " (", size.value, ")"),
                   concat("choose tp so that it divides ", size.name));
}

// Ranks that share the positions of a sample become ranks that share heads.
void require_exchange(const char* mixer, const MixerSize& heads, const ModelOptions& options) {
  const std::int64_t here = heads.value / options.tensor_parallel;
  if (here % options.context_parallel == 0) return;
  throw UsageError("E0653",
                   concat(mixer, " exchanges positions for heads among ", options.context_parallel,
                          " context-parallel ranks, which do not divide the ", here, " ",
                          heads.name, " of a tensor-parallel rank"),
                   concat("choose tp and cp so that tp x cp divides ", heads.name));
}

void require_delta_net(const ModelOptions& options) {
  constexpr const char* kMixer = "gated DeltaNet";
  const DeltaNetOptions& o = options.delta_net;
  const MixerSize keys{"key_heads", o.key_heads};
  const MixerSize values{"value_heads", o.value_heads};
  require_sizes(kMixer, {keys,
                         values,
                         {"key_size", o.key_size},
                         {"value_size", o.value_size},
                         {"conv_kernel", o.conv_kernel}});
  require_multiple(kMixer, values, keys);
  for (const MixerSize& heads : {keys, values}) {
    require_cut(kMixer, heads, options);
    require_exchange(kMixer, heads, options);
  }
}

void require_mamba(const ModelOptions& options) {
  constexpr const char* kMixer = "Mamba-2";
  const MambaOptions& o = options.mamba;
  const MixerSize heads{"num_heads", o.num_heads};
  const MixerSize groups{"num_groups", o.num_groups};
  require_sizes(kMixer, {heads,
                         groups,
                         {"head_size", o.head_size},
                         {"state_size", o.state_size},
                         {"conv_kernel", o.conv_kernel},
                         {"chunk_size", o.chunk_size}});
  require_multiple(kMixer, heads, groups);
  for (const MixerSize& cut : {heads, groups}) require_cut(kMixer, cut, options);
  require_exchange(kMixer, heads, options);
  // A group is whole on a rank, or neighbouring ranks have copies of it.
  const std::int64_t here = o.num_groups / options.tensor_parallel;
  if (here < options.context_parallel && options.context_parallel % here == 0) return;
  require_exchange(kMixer, groups, options);
}

}  // namespace

void require_linear_mixers(const ModelOptions& options) {
  if (options.mixes_by(Mixer::delta_net)) require_delta_net(options);
  if (options.mixes_by(Mixer::mamba)) require_mamba(options);
}

}  // namespace shardsim

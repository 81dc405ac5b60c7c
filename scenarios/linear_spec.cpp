#include "scenarios/linear_spec.hpp"

#include <algorithm>

#include "strategies/model/layer_options.hpp"

namespace shardsim {

namespace {

std::int64_t keys_of(const ModelSpec& m) { return m.delta_net.key_heads * m.delta_net.key_size; }
std::int64_t groups_of(const ModelSpec& m) { return m.mamba.num_groups * m.mamba.state_size; }

}  // namespace

std::int64_t output_of(const ModelSpec& m, Mixer mixer) {
  if (mixer == Mixer::delta_net) return m.delta_net.value_heads * m.delta_net.value_size;
  if (mixer == Mixer::mamba) return m.mamba.num_heads * m.mamba.head_size;
  return 0;
}

std::int64_t projection_of(const ModelSpec& m, Mixer mixer) {
  const std::int64_t output = output_of(m, mixer);
  if (mixer == Mixer::delta_net) return 2 * (keys_of(m) + output + m.delta_net.value_heads);
  if (mixer == Mixer::mamba) return 2 * (output + groups_of(m)) + m.mamba.num_heads;
  return 0;
}

std::int64_t delta_net_parameters(const ModelSpec& m) {
  const std::int64_t values = output_of(m, Mixer::delta_net);
  return m.hidden_size * (projection_of(m, Mixer::delta_net) + values) +
         m.delta_net.conv_kernel * (2 * keys_of(m) + values) + 2 * m.delta_net.value_heads +
         m.delta_net.value_size;
}

std::int64_t mamba_parameters(const ModelSpec& m) {
  const std::int64_t inner = output_of(m, Mixer::mamba);
  return m.hidden_size * (projection_of(m, Mixer::mamba) + inner) +
         (m.mamba.conv_kernel + 1) * (inner + 2 * groups_of(m)) + 3 * m.mamba.num_heads +
         (m.mamba.has_norm ? inner : 0);
}

bool divides_mixers(const ModelSpec& m, std::int64_t tp, std::int64_t cp) {
  if (m.layers_mixed_by(Mixer::delta_net) > 0 &&
      (m.delta_net.key_heads % (tp * cp) != 0 || m.delta_net.value_heads % (tp * cp) != 0)) {
    return false;
  }
  if (m.layers_mixed_by(Mixer::mamba) == 0) return true;
  if (m.mamba.num_heads % (tp * cp) != 0 || m.mamba.num_groups % tp != 0) return false;
  const std::int64_t groups = m.mamba.num_groups / tp;
  return groups % cp == 0 || cp % groups == 0;
}

// Projection twice, where it is exchanged, output three times, and rows of inverses.
std::int64_t most_kept_by_mixers(const ModelSpec& m) {
  constexpr std::int64_t kChunk = 64;
  std::int64_t most = 0;
  for (const Mixer mixer : {Mixer::delta_net, Mixer::mamba}) {
    if (m.layers_mixed_by(mixer) == 0) continue;
    const std::int64_t rows =
        mixer == Mixer::delta_net ? (kChunk + 2) * m.delta_net.value_heads : m.mamba.num_groups;
    most = std::max(most, 3 * projection_of(m, mixer) + 4 * output_of(m, mixer) + rows);
  }
  return most;
}

// There and back, forward, again and backward; groups of which there are fewer than ranks once for
// each rank.
std::int64_t most_sent_by_mixers(const ModelSpec& m, std::int64_t cp) {
  std::int64_t most = 0;
  for (const Mixer mixer : {Mixer::delta_net, Mixer::mamba}) {
    if (m.layers_mixed_by(mixer) == 0) continue;
    const std::int64_t copies = mixer == Mixer::mamba ? 2 * cp * groups_of(m) : 0;
    most = std::max(most, 3 * (projection_of(m, mixer) + output_of(m, mixer) + copies));
  }
  return most;
}

}  // namespace shardsim

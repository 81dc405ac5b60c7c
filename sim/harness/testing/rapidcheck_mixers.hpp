#pragma once

#include <cstdint>

#include <rapidcheck.h>

#include "strategies/model/make_model.hpp"

// Layers of gated DeltaNet and Mamba-2, and layers of one branch, for generators of models.
namespace shardsim::gen {

/// A layer without attention, perhaps of one branch.
[[nodiscard]] inline rc::Gen<LayerOptions> of_other_mixers() {
  return rc::gen::exec([] {
    LayerOptions layer;
    layer.mixer = static_cast<Mixer>(
        *rc::gen::inRange(static_cast<int>(Mixer::delta_net), static_cast<int>(Mixer::none) + 1));
    if (layer.mixer != Mixer::none && *rc::gen::arbitrary<bool>()) {
      layer.feed_forward = FeedForward::none;
    }
    return layer;
  });
}

/// Sizes of both mixers.
[[nodiscard]] inline rc::Gen<bool> of_mixer_sizes(ModelOptions& options) {
  return rc::gen::exec([&options] {
    options.delta_net = {.key_heads = *rc::gen::inRange<std::int64_t>(1, 3),
                         .key_size = *rc::gen::inRange<std::int64_t>(1, 4),
                         .value_size = *rc::gen::inRange<std::int64_t>(1, 4),
                         .conv_kernel = *rc::gen::inRange<std::int64_t>(1, 5)};
    options.delta_net.value_heads =
        options.delta_net.key_heads * *rc::gen::inRange<std::int64_t>(1, 3);
    options.mamba = {.head_size = *rc::gen::inRange<std::int64_t>(1, 4),
                     .num_groups = *rc::gen::inRange<std::int64_t>(1, 3),
                     .state_size = *rc::gen::inRange<std::int64_t>(1, 4),
                     .conv_kernel = *rc::gen::inRange<std::int64_t>(1, 5),
                     .chunk_size = *rc::gen::inRange<std::int64_t>(1, 5),
                     .has_norm = *rc::gen::arbitrary<bool>()};
    if (*rc::gen::arbitrary<bool>()) {
      for (double* const scale :
           {&options.mamba.z_scale, &options.mamba.x_scale, &options.mamba.b_scale,
            &options.mamba.c_scale, &options.mamba.dt_scale, &options.mamba.output_scale}) {
        *scale = *rc::gen::element(0.5, 1.0, 1.5);
      }
    }
    options.mamba.num_heads = options.mamba.num_groups * *rc::gen::inRange<std::int64_t>(1, 3);
    return true;
  });
}

}  // namespace shardsim::gen

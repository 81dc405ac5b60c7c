#include "strategies/sharded_optimizer/sharding_configuration.hpp"

#include <cmath>
#include <string>

#include "sim/kernel/error.hpp"

namespace shardsim {

ShardingConfiguration high_bandwidth_configuration() {
  return {.minimum_parameter_group_size = 512};
}

ShardingConfiguration low_bandwidth_configuration() {
  return {.minimum_parameter_group_size = 4096, .enable_gradient_compression = true};
}

ShardingConfiguration zero_offload_configuration() {
  return {.cpu_offload_optimizer = true, .cpu_offload_gradients = true};
}

ShardingConfiguration zero_offload_full_configuration() {
  return {
      .cpu_offload_optimizer = true, .cpu_offload_gradients = true, .cpu_offload_parameters = true};
}

void validate(const ShardingConfiguration& configuration, int zero_stage) {
  if (!(configuration.learning_rate > 0.0) || std::isinf(configuration.learning_rate)) {
    throw UsageError("E0773", "learning_rate is " + std::to_string(configuration.learning_rate),
                     "give a positive, finite rate");
  }
  if (configuration.minimum_parameter_group_size < 0) {
    throw UsageError("E0774",
                     "minimum_parameter_group_size is " +
                         std::to_string(configuration.minimum_parameter_group_size),
                     "give a number of elements, 0 or more");
  }
  if (configuration.enable_gradient_compression && zero_stage != 0) {
    throw UsageError("E0775",
                     "enable_gradient_compression needs ZeRO stage 0, the stage is " +
                         std::to_string(zero_stage) + ", whose ranks reduce shards",
                     "choose DDP, or switch it off; the low-bandwidth preset sets it");
  }
  if (configuration.cpu_offload_gradients && zero_stage < 2) {
    throw UsageError("E0776",
                     "cpu_offload_gradients needs ZeRO stage 2 or 3, the stage is " +
                         std::to_string(zero_stage) +
                         ", where gradients are whole and reduced in place",
                     "choose ZeRO-2 or FSDP, or keep gradients on the device");
  }
  if (configuration.cpu_offload_parameters && zero_stage != 3) {
    throw UsageError("E0777",
                     "cpu_offload_parameters needs ZeRO stage 3, the stage is " +
                         std::to_string(zero_stage) +
                         ", where every rank computes with all of them",
                     "choose FSDP, or keep parameters on the device");
  }
}

}  // namespace shardsim

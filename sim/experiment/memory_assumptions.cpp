#include "scenarios/scenario.hpp"
#include "sim/experiment/assumptions.hpp"

namespace shardsim {

Assumptions savings_of_memory(const Scenario& scenario) {
  Assumptions assumptions;
  const ParallelismSpec& parallelism = scenario.parallelism;
  if (parallelism.offloads()) {
    assumptions.push_back(
        {"Offloaded tensors visit the device a chunk at a time, for the update, too. Transfers run "
         "on the compute stream, count as computing, reach the full rate of the link and hide "
         "behind nothing; host memory has no limit",
         "modelling choice; DeepSpeed updates on the host, and hides part of it"});
  }
  if (parallelism.offloads_activations()) {
    assumptions.push_back(
        {"Offloaded activations travel on two copy streams, at the full rate of the host link, and "
         "slow nothing down; beside collectives they slow down as computing does. Those of one "
         "layer leave, or come, while the next one computes. Waiting for them counts as idle time",
         "modelling choice, as Transformer Engine's cpu_offload does it"});
  }
  if (scenario.training.quantized_parameters) {
    assumptions.push_back(
        {"Weights of products are kept and gathered in 8 bits, a chunk as one message; owners "
         "agree "
         "on scales that a shard does not hold whole",
         "Transformer Engine's cast_master_weights_to_fp8; "
         "docs/decisions/0084-parameters-in-8-bits.md"});
  }
  if (scenario.training.recompute == Recompute::selective) {
    assumptions.push_back({"Selective recomputation is that of the modules " +
                               scenario.training.recompute_modules +
                               "; a fused kernel computes attention's scores again in any case",
                           "modelling choice; Megatron-LM's default is core_attn alone"});
  }
  if (parallelism.zero_stage == 3 && parallelism.reshard_after_forward) {
    assumptions.push_back({"Every unit is gathered again for backward, the last one, too",
                           "modelling choice; PyTorch may keep the last"});
  }
  return assumptions;
}

}  // namespace shardsim

#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>

#include "scenarios/reading.hpp"

// The checks behind resolve(), one file per group. Each looks only at values that are good, so that
// one mistake is reported once, and settles what it derives.
namespace shardsim {

void resolve_model(Reading& r);
/// The list of layers agrees with their number, or says it. REQUIRES: model.family is good.
void resolve_layers(Reading& r);
/// Whether a key of a listed layer is there and wrong, which has been said.
bool is_broken_layer(const Reading& r, std::size_t index, const char* key);
/// Elements of a head that turn. REQUIRES: the heads are resolved.
void resolve_rotary_dim(Reading& r);
/// Heads of a layer's own fit together. REQUIRES: resolve_layers(); the rest of attention read.
void resolve_layer_heads(Reading& r);
/// tp divides them. REQUIRES: resolve_model().
void resolve_layer_heads_layout(Reading& r);
void resolve_prediction(Reading& r);
/// REQUIRES: resolve_layers(); the rest of attention read.
void resolve_latent_attention(Reading& r);
void resolve_block_shape(Reading& r);
/// Layers without attention or without a feed-forward fit the rest of the model. REQUIRES:
/// resolve_layers().
void resolve_linear(Reading& r);
/// tp and cp divide heads of these layers. REQUIRES: resolve_model().
void resolve_linear_layout(Reading& r);
/// Reports that a family needs a field of "model" which is not given.
void need(Reading& r, const std::string& path, const std::string& family);
void resolve_system(Reading& r);
/// Replaced constants of kernels are there once, and act. REQUIRES: resolve_system().
void resolve_kernel_constants(Reading& r);
/// NCCL's cost model, where it is asked for, knows the machine. REQUIRES: resolve_system().
void resolve_network(Reading& r);
/// World size = dp_replicate x dp_shard x tp x pp x cp. REQUIRES: resolve_system().
void resolve_layout(Reading& r);
void resolve_sharding(Reading& r);
/// State in host memory is sharded as it must be, and there is a host link. REQUIRES:
/// resolve_sharding().
void resolve_offload(Reading& r);
/// A limit of power is known to be one. REQUIRES: resolve_system().
void resolve_power(Reading& r);
/// CUDA graphs can have what they are to have. REQUIRES: resolve_experts(), resolve_blocks().
void resolve_graphs(Reading& r);
/// Choices of data parallelism that change the algorithm or the members fit the rest. REQUIRES:
/// resolve_batch() and resolve_training().
void resolve_data_parallel(Reading& r);
/// global_batch_size = micro_batch_size x data-parallel ranks x num_microbatches.
void resolve_batch(Reading& r);
/// tp divides all dimensions that tensor parallelism splits. REQUIRES: resolve_model().
void resolve_tensor_parallel(Reading& r);
/// cp divides all dimensions that context parallelism cuts and exchanges. REQUIRES:
/// resolve_model(), resolve_system().
void resolve_context_parallel(Reading& r);
/// Recompute and dropout are those of a transformer's blocks. REQUIRES: resolve_model().
void resolve_blocks(Reading& r);
/// Experts fit the model and the layout; reads the file of their popularity. REQUIRES:
/// resolve_model(), resolve_layout(), resolve_system().
void resolve_experts(Reading& r);
/// The part of it that is about ranks: their experts, and how tokens get there.
void check_expert_layout(Reading& r);
/// Layers of each stage, all of them. REQUIRES: resolve_model(), resolve_chunks().
void resolve_stages(Reading& r);
/// Reads and parses parallelism.schedule_file if the schedule is "file". Every cell that is no
/// action is a problem at its line and cell. resolve_batch() comes later.
void resolve_schedule_file(Reading& r);
/// Its shape is that of the scenario's pipeline. REQUIRES: resolve_batch().
void check_schedule_file(Reading& r);
/// Model chunks per pipeline rank, which schedules and their file may say.
void resolve_chunks(Reading& r);
/// Schedule and microbatches fit. REQUIRES: resolve_chunks(), resolve_batch().
void resolve_pipeline(Reading& r);
void resolve_training(Reading& r);
/// Products in low precision fit the rest. REQUIRES: training.precision is good;
/// resolve_model(), resolve_system(), resolve_layout().
void resolve_low_precision(Reading& r);
/// Faults name parts that exist, and are complete. REQUIRES: resolve_layout().
void resolve_faults(Reading& r);
void check_expectations(Reading& r);
void check_outputs(Reading& r);
/// The largest number of ranks of a scenario: max_plan_ranks where ranks may be replayed or folded,
/// as only a plan tells how many of them must run. Then sim/run/run.cpp compares those with the
/// engine's limit.
[[nodiscard]] std::int64_t max_ranks_of(const Reading& reading);

/// Compares a resolved scenario with the limits; does nothing while there are other problems. Takes
/// no memory in proportion to anything in the scenario.
void check_limits(Reading& reading);
/// Refuses NCCL settings that leave no algorithm for a collective that a run calls (E0407).
void check_nccl_calls(Reading& r);

/// A count that may not fit 64 bits: nothing then, and in all that is made of it.
using Count = std::optional<std::int64_t>;

/// The product of non-negative factors, or nothing if it does not fit 64 bits.
inline Count product_if_fits(std::initializer_list<Count> factors) {
  std::int64_t product = 1;
  for (const Count& factor : factors) {
    if (!factor || __builtin_mul_overflow(product, *factor, &product)) return std::nullopt;
  }
  return product;
}

/// The sum of non-negative terms, or nothing if it does not fit 64 bits.
inline Count sum_if_fits(std::initializer_list<Count> terms) {
  std::int64_t sum = 0;
  for (const Count& term : terms) {
    if (!term || __builtin_add_overflow(sum, *term, &sum)) return std::nullopt;
  }
  return sum;
}

/// "1, 2, 3, 4, 6": the first divisors of `number` that are at most `limit`, as a hint.
std::string divisors(std::int64_t number, std::int64_t limit);

inline std::string text_of(std::int64_t number) { return std::to_string(number); }

/// The text of defaults/software.json, and the framework that it names for the layout: the first
/// row's whose conditions hold. A condition lists values of a field, or tells what it is above.
[[nodiscard]] const char* software_defaults_text();
[[nodiscard]] std::string default_software(const Scenario& scenario);

/// Fills a value that was not written. A value that was written wrongly stays without one.
template <typename T>
void derive(Reading& r, const std::string& path, T& target, const std::type_identity_t<T>& value) {
  if (!r.given(path)) {
    target = value;
    r.settle(path);
  }
}

}  // namespace shardsim

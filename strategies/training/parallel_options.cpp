#include <cmath>
#include <limits>
#include <string>

#include "sim/kernel/error.hpp"

#include "strategies/training/parallel_plan.hpp"

// Options of a training that are refused before anything runs.
namespace shardsim {

namespace {

// Schedules count microbatches in int, as they count everything.
constexpr std::int64_t kMostMicrobatches = std::numeric_limits<int>::max();

void require_of_training(bool holds, const char* name, const std::string& value,
                         const std::string& fix) {
  if (!holds) {
    throw UsageError("E0791", "training: " + std::string(name) + " is " + value, fix);
  }
}

void require_at_least(std::int64_t least, const char* name, std::int64_t value) {
  if (value < least) {
    throw UsageError("E0794", std::string(name) + " is " + std::to_string(value),
                     "give " + std::to_string(least) + " or more");
  }
}

void require_of_choice(bool holds, const std::string& what, const char* fix) {
  if (!holds) throw UsageError("E0796", what, fix);
}

bool is_data_parallel_only(const MeshShape& mesh) {
  return mesh.tp == 1 && mesh.pp == 1 && mesh.cp == 1 && mesh.expert_parts() == 1;
}

void require_members(const ParallelOptions& options) {
  const int ranks = options.mesh.dp_shard;
  const std::int64_t runs = options.training.num_microbatches * options.mesh.data_size();
  require_of_choice(
      is_data_parallel_only(options.mesh) && options.mesh.dp_replicate == 1 && ranks > 1,
      "elastic membership is that of data-parallel ranks, without any other axis",
      "use dp_shard alone, of 2 ranks or more");
  require_of_choice(options.zero_stage == 0,
                    "elastic membership with zero_stage " + std::to_string(options.zero_stage) +
                        ": what is sharded would have to be cut anew for other members",
                    "use zero_stage 0");
  for (const int members : options.members) {
    require_of_choice(members >= 1 && members <= ranks && members <= runs,
                      std::to_string(members) + " members of " + std::to_string(ranks) +
                          " ranks, for " + std::to_string(runs) + " microbatches",
                      "let 1 rank or more take part, at most one for each microbatch");
  }
}

// Muon, with anything that its parts are not made for.
void require_of_muon_plan(const ParallelOptions& options) {
  const SyncPlan& sync = options.sync;
  require_of_choice(options.zero_stage <= 1,
                    "muon with zero_stage " + std::to_string(options.zero_stage) +
                        ": it needs whole gradients of the matrices that a rank updates",
                    "use zero_stage 0 or 1");
  require_of_choice(!sync.offload_optimizer && !sync.offload_gradients && !sync.offload_parameters,
                    "muon with something offloaded: it iterates on what is on the device",
                    "keep all on the device");
  require_of_choice(!sync.local.acts() && !sync.compression.acts() && sync.max_staleness == 0 &&
                        options.members.empty(),
                    "muon with data parallelism that is another algorithm (replicas that train "
                    "apart, compressed or late gradients, elastic membership)",
                    "train synchronously, with whole gradients");
}

}  // namespace

void validate(const TrainingPlan& plan) {
  require_of_training(plan.steps >= 0, "steps", std::to_string(plan.steps),
                      "give a number of 0 or more");
  require_of_training(plan.micro_batch_size >= 1, "micro_batch_size",
                      std::to_string(plan.micro_batch_size),
                      "give each microbatch 1 sample or more");
  require_of_training(
      plan.num_microbatches >= 1 && plan.num_microbatches <= kMostMicrobatches, "num_microbatches",
      std::to_string(plan.num_microbatches),
      "give each step 1 microbatch or more, at most " + std::to_string(kMostMicrobatches));
  require_of_training(
      plan.ignore_fraction >= 0.0 && plan.ignore_fraction < 1.0, "ignore_fraction",
      std::to_string(plan.ignore_fraction),
      "ignore a share of at least 0 and below 1: without targets there is nothing to train on");
  require_of_training(std::isfinite(plan.max_grad_norm) && plan.max_grad_norm >= 0.0,
                      "max_grad_norm", std::to_string(plan.max_grad_norm),
                      "give a finite norm above 0, or 0 to clip nothing");
  require_of_training(plan.global_batch >= 0, "global_batch", std::to_string(plan.global_batch),
                      "give a number of samples, or 0 where all ranks have equally many");
  validate(plan.loss_scaling);
}

void validate(const ParallelOptions& options) {
  require_at_least(1, "mesh.dp_shard", options.mesh.dp_shard);
  require_at_least(1, "mesh.dp_replicate", options.mesh.dp_replicate);
  require_at_least(1, "mesh.tp", options.mesh.tp);
  require_at_least(1, "mesh.pp", options.mesh.pp);
  require_at_least(1, "mesh.cp", options.mesh.cp);
  require_at_least(1, "mesh.ep", options.mesh.ep);
  require_at_least(1, "mesh.etp", options.mesh.etp);
  require_at_least(1, "num_chunks", options.num_chunks);
  require_at_least(1, "bucket_bytes", options.bucket_bytes);
  require_at_least(1, "first_bucket_bytes", options.first_bucket_bytes);
  require_at_least(0, "minimum_group_numel", options.minimum_group_numel);
  validate(options.training);
  validate(options.sync);
}

void ParallelPlan::require_fitting_choice(const ParallelOptions& options) {
  const SyncPlan& sync = options.sync;
  const bool elastic = !options.members.empty();
  if (sync.muon) require_of_muon_plan(options);
  const int chosen = (sync.local.acts() ? 1 : 0) + (sync.compression.acts() ? 1 : 0) +
                     (sync.max_staleness > 0 ? 1 : 0) + (elastic ? 1 : 0);
  if (chosen == 0) return;
  require_of_choice(
      chosen == 1,
      "two of compressed gradients, late gradients, replicas that train apart and elastic "
      "membership at once",
      "choose one of them");
  require_of_choice(
      !options.training.loss_scaling.acts(),
      "loss scaling decides in each step for all ranks alike, from the gradients of that step; "
      "here there are others",
      "train in bf16 or fp32, or synchronously");
  require_of_choice(options.model.moe.num_experts == 0,
                    "a mixture of experts balances the tokens of one synchronous step",
                    "train experts synchronously, with whole gradients");
  require_of_choice(!sync.local.acts() || options.mesh.dp_replicate > 1,
                    "there is one replica (dp_replicate is 1), and nobody to average with",
                    "let dp_replicate be 2 or more, or train synchronously");
  const bool offloads = sync.offload_optimizer || sync.offload_gradients || sync.offload_parameters;
  require_of_choice(!offloads,
                    "what is offloaded cannot be averaged, compressed, kept for later or handed on",
                    "keep all on the device, or train synchronously");
  require_of_choice(
      !sync.compression.acts() || (options.zero_stage == 0 && is_data_parallel_only(options.mesh)),
      "compressed gradients are those of plain data parallelism",
      "use zero_stage 0 without tp, pp, cp and ep");
  require_of_choice(sync.max_staleness == 0 || options.zero_stage <= 1,
                    "late gradients need whole buffers for each step under way, which zero_stage " +
                        std::to_string(options.zero_stage) + " does not have",
                    "use zero_stage 0 or 1");
  if (elastic) require_members(options);
}

}  // namespace shardsim

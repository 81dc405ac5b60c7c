#include "strategies/gradient_sync/gradient_sync.hpp"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

void require_of_sync(bool holds, const char* name, const std::string& value, const char* fix) {
  if (!holds) {
    throw UsageError("E0792", "gradient synchronization: " + std::string(name) + " is " + value,
                     fix);
  }
}

void require_of_data_parallelism(bool holds, const std::string& what, const char* fix) {
  if (!holds) throw UsageError("E0795", "data parallelism: " + what, fix);
}

void require_floating(const char* name, DType dtype) {
  require_of_sync(has_arithmetic(dtype), name, std::string(name_of(dtype)),
                  "use one of fp64, fp32, bf16, fp16");
}

// Without the parameters that are in none of the model's units.
ReadyOrder within_units(const ReadyOrder& all, const Model& model) {
  std::vector<bool> is_here(model.parameters().size(), false);
  for (const ParameterUnit& unit : model.units()) {
    for (int i = unit.first; i < unit.first + unit.count; ++i) {
      is_here[to_size(i)] = true;
    }
  }
  ReadyOrder order;
  for (const std::vector<int>& together : all) {
    std::vector<int> kept;
    for (const int parameter : together) {
      if (is_here[to_size(parameter)]) kept.push_back(parameter);
    }
    if (!kept.empty()) order.push_back(std::move(kept));
  }
  return order;
}

}  // namespace

void validate(const LocalTraining& local) {
  require_of_data_parallelism(local.sync_period >= 0,
                              "sync_period is " + std::to_string(local.sync_period),
                              "average after 1 update or more, or use 0 for replicas that are one");
  require_of_data_parallelism(
      std::isfinite(local.outer_learning_rate) && local.outer_learning_rate > 0.0,
      "outer_learning_rate is " + std::to_string(local.outer_learning_rate),
      "give a finite number above 0");
  require_of_data_parallelism(local.outer_momentum >= 0.0 && local.outer_momentum < 1.0,
                              "outer_momentum is " + std::to_string(local.outer_momentum),
                              "give a number of at least 0 and below 1");
}

void validate(const GradientCompression& compression) {
  require_of_data_parallelism(compression.ratio > 0.0 && compression.ratio <= 1.0,
                              "the ratio of a compression is " + std::to_string(compression.ratio),
                              "send a share above 0, at most 1");
  require_of_data_parallelism(
      compression.block_size >= 1,
      "the block_size of a compression is " + std::to_string(compression.block_size),
      "let 1 element or more share a scale");
}

void validate(const SyncPlan& plan) {
  require_floating("weight_dtype", plan.weight_dtype);
  require_floating("master_dtype", plan.master_dtype);
  require_floating("state_dtype", plan.state(/*of_muon=*/false));
  require_floating("gradient_dtype", plan.gradient_dtype);
  require_of_sync(plan.prefetch_units >= 0, "prefetch_units", std::to_string(plan.prefetch_units),
                  "gather 1 unit or more ahead, or use 0 for none");
  require_of_sync(plan.reductions_in_flight >= 0, "reductions_in_flight",
                  std::to_string(plan.reductions_in_flight),
                  "let 1 reduction or more keep its buffer, or use 0 for none");
  require_of_sync(plan.max_staleness >= 0, "max_staleness", std::to_string(plan.max_staleness),
                  "apply gradients 1 update late or more, or use 0 to wait for them");
  validate(plan.local);
  validate(plan.compression);
  if (plan.muon) validate(*plan.muon);
}

std::unique_ptr<GradientSync> make_gradient_sync(int zero_stage, const SyncPlan& plan,
                                                 Runtime& runtime, Mesh& mesh) {
  if (zero_stage == 3) return make_fully_sharded_sync(plan, runtime, mesh);
  if (zero_stage >= 0 && zero_stage <= 2) {
    return make_bucketed_sync(zero_stage, plan, runtime, mesh);
  }
  throw UsageError("E0702", "zero_stage " + std::to_string(zero_stage) + " does not exist",
                   "use 0 (DDP), 1, 2 or 3");
}

FlatLayout make_layout(int zero_stage, const Model& model, const Model& uncut,
                       const MeshShape& mesh, DType gradient_dtype, std::int64_t bucket_bytes,
                       std::int64_t first_bucket_bytes, std::int64_t minimum_numel, WeightKind kind,
                       MatrixBuckets matrices) {
  if (zero_stage == 3) return FlatLayout::units(model, mesh.num_shards(kind));
  const ReadyOrder order = within_units(gradient_ready_order(uncut, gradient_dtype), model);
  return FlatLayout::buckets(model, order, bucket_bytes, first_bucket_bytes, gradient_dtype,
                             zero_stage == 0 ? 1 : mesh.num_shards(kind), minimum_numel, matrices);
}

MatrixBuckets matrix_buckets_of(const SyncPlan& plan, int zero_stage) {
  if (!plan.muon) return MatrixBuckets::mixed;
  const bool one_owner = plan.muon->data_parallel == MuonDataParallel::layer_wise;
  return zero_stage == 1 && one_owner ? MatrixBuckets::whole : MatrixBuckets::apart;
}

}  // namespace shardsim

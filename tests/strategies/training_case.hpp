#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/fiber/fiber_world.hpp"

#include "strategies/gradient_sync/gradient_sync.hpp"
#include "strategies/gradient_sync/whole_state.hpp"
#include "strategies/training/parallel_plan.hpp"

#include "tests/strategies/model_fixture.hpp"

// A training run as a value: run on virtual ranks by a gradient-sync strategy, or by a reference
// that knows of no ranks, and compared element by element.
namespace shardsim::test {

/// The oracle's, in fp64: of worst_error.
inline constexpr double kOracleBound = 1e-9;

struct TrainingCase {
  std::string name = "mlp";  ///< The model's name, for messages.
  ModelOptions model = small_model("mlp");
  int zero_stage = 0;
  MeshShape mesh;
  std::string optimizer = "sgd";
  OptimizerOptions optimizer_options{.learning_rate = 0.01, .weight_decay = 0.1};
  TrainingPlan training;
  std::int64_t bucket_bytes = 400;
  std::int64_t first_bucket_bytes = 200;
  /// Model, optimizer and layout are filled in; everything in fp64 unless told otherwise.
  SyncPlan sync{
      .weight_dtype = DType::fp64, .master_dtype = DType::fp64, .gradient_dtype = DType::fp64};
  /// The cluster is filled in unless it was made by test_cluster.
  FiberOptions world;
  /// The model that rank `rank` uses in place of `part.model`; null: that itself.
  std::function<std::unique_ptr<Model>(const ModelPart& part, int rank)> model_of_rank;
  /// The gradient synchronization that rank `rank` uses in place of `sync`; null: that itself.
  std::function<std::unique_ptr<GradientSync>(GradientSync& sync, Runtime& runtime, int rank)>
      wrap_sync;
  std::string schedule = "1f1b";
  std::optional<PipelineSchedule> own_schedule;  ///< Instead of that.
  int num_chunks = 1;
  StageSplit stage_split;
  bool record = true;  ///< Values; where the world has data.
};

/// The same without data.
[[nodiscard]] inline TrainingCase without_data(TrainingCase c) {
  c.world.has_data = false;
  return c;
}

[[nodiscard]] inline std::int64_t of(const MemoryUse& use, MemoryCategory category) {
  return use.at(static_cast<std::size_t>(category));
}

/// The options that the case asks of a ParallelPlan.
[[nodiscard]] ParallelOptions options_of(const TrainingCase& c);

/// One line: everything needed to build the case again.
[[nodiscard]] std::string describe(const TrainingCase& c);

/// [parameter][element]; NaN where a rank does not hold it.
using Values = std::vector<std::vector<double>>;

/// The values of a rank at one step: "gradient" (before the optimizer), "parameter" and the names
/// of optimizer states. Only the last pipeline stage knows the loss.
struct StepRecord {
  std::map<std::string, Values> values;
  std::optional<double> loss;
};

struct RankRecord {
  std::vector<StepRecord> steps;
  MemoryUse persistent{};  ///< Between steps, before the first.
  MemoryUse peaks{};       ///< Peaks of the training itself.
  Time begin;              ///< The training's begin: groups are made before.
  Time end;
  TimeSplit split;
};

struct TrainingResult {
  std::vector<RankRecord> ranks;
  std::uint64_t trace_hash = 0;
  std::map<std::string, TrafficCounters> traffic;
  std::vector<std::int64_t> sent_by_rank;
  std::vector<RankTrace> traces;  ///< Traces of world.traced_ranks.
};

[[nodiscard]] TrainingResult run(const TrainingCase& c);

/// The reference: one device, whole tensors, the whole global batch at once.
[[nodiscard]] std::vector<StepRecord> train_alone(const TrainingCase& c);

/// One step of all ranks put together. Fails the test where ranks that hold the same element differ
/// in a bit, or where an element is not held by exactly the ranks that should.
[[nodiscard]] StepRecord merge(const TrainingCase& c, const TrainingResult& result,
                               std::size_t step);

/// The largest error by the definition of the oracle, relative to each tensor's largest element
/// (at least 1e-6 of its kind's); `where` names the tensor.
struct WorstError {
  double value = 0.0;
  std::string where;
};
[[nodiscard]] WorstError worst_error(const StepRecord& actual, const StepRecord& reference);
/// Names the first element that differs in value; empty if none does.
[[nodiscard]] std::string first_difference(const StepRecord& a, const StepRecord& b);

/// The chunks a case works with.
[[nodiscard]] FlatLayout layout_of(const TrainingCase& c, const Model& model);

}  // namespace shardsim::test

#include "strategies/sharded_optimizer/other_data_parallelism.hpp"

#include <utility>

#include "sim/kernel/error.hpp"

#include "strategies/gradient_sync/compressors.hpp"

namespace shardsim {

std::unique_ptr<ShardedOptimizer> make_local_sgd_optimizer(
    Runtime& runtime, Communicator& world, const ParallelOptions& problem,
    std::unique_ptr<Optimizer> wrapped, const LocalTraining& local,
    const ShardingConfiguration& configuration, const OptimizationOptions& options) {
  const ParallelChoice choice{.name = "local_sgd", .dp_replicate = world.size(), .local = local};
  return std::make_unique<ShardedOptimizer>(runtime, world, problem, std::move(wrapped), choice,
                                            configuration, options);
}

std::unique_ptr<ShardedOptimizer> make_async_sgd_optimizer(
    Runtime& runtime, Communicator& world, const ParallelOptions& problem,
    std::unique_ptr<Optimizer> wrapped, int max_staleness,
    const ShardingConfiguration& configuration, const OptimizationOptions& options) {
  const ParallelChoice choice{.name = "async_sgd", .max_staleness = max_staleness};
  return std::make_unique<ShardedOptimizer>(runtime, world, problem, std::move(wrapped), choice,
                                            configuration, options);
}

std::unique_ptr<ShardedOptimizer> make_gradient_compression_optimizer(
    Runtime& runtime, Communicator& world, const ParallelOptions& problem,
    std::unique_ptr<Optimizer> wrapped, double ratio, bool quantize, bool topk,
    const ShardingConfiguration& configuration, const OptimizationOptions& options) {
  if (quantize && topk) {
    throw UsageError("E0798", "gradient compression: top-k and quantization at once",
                     "choose one of them");
  }
  ParallelChoice choice{.name = "gradient_compression"};
  if (quantize) choice.compression.compressor = &int8_blocks();
  if (topk) choice.compression = {.compressor = &largest_elements(), .ratio = ratio};
  return std::make_unique<ShardedOptimizer>(runtime, world, problem, std::move(wrapped), choice,
                                            configuration, options);
}

}  // namespace shardsim

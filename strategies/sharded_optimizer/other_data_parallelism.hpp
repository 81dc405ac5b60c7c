#pragma once

#include "strategies/sharded_optimizer/sharded_optimizer.hpp"

// The optimizers of the specification that change the algorithm: LocalSGD, AsyncSGD and
// GradientCompression, of all ranks of the world as data-parallel ones. (Its Elastic changes who
// the ranks are, and an object of one mesh cannot: training/elastic.cpp runs it as a whole.)
//
// A rank's state is then no share of one model, from which another layout could continue:
// serialize, deserialize, save_model and load_model are refused (E0797), on every rank alike.
namespace shardsim {

/// Every rank is a replica that trains apart; see LocalTraining. Throws UsageError as its
/// validate(), and for a world of one rank.
[[nodiscard]] std::unique_ptr<ShardedOptimizer> make_local_sgd_optimizer(
    Runtime& runtime, Communicator& world, const ParallelOptions& problem,
    std::unique_ptr<Optimizer> wrapped, const LocalTraining& local,
    const ShardingConfiguration& configuration = {}, const OptimizationOptions& options = {});

/// Gradients are applied `max_staleness` updates late. After the last step() all ranks call
/// ShardedOptimizer::drain(); optimize() does.
[[nodiscard]] std::unique_ptr<ShardedOptimizer> make_async_sgd_optimizer(
    Runtime& runtime, Communicator& world, const ParallelOptions& problem,
    std::unique_ptr<Optimizer> wrapped, int max_staleness,
    const ShardingConfiguration& configuration = {}, const OptimizationOptions& options = {});

/// `quantize`: int8; `topk`: the largest `ratio` of each bucket. With error feedback. Throws
/// UsageError if both are asked for; neither: plain data parallelism.
[[nodiscard]] std::unique_ptr<ShardedOptimizer> make_gradient_compression_optimizer(
    Runtime& runtime, Communicator& world, const ParallelOptions& problem,
    std::unique_ptr<Optimizer> wrapped, double ratio = 0.1, bool quantize = true, bool topk = false,
    const ShardingConfiguration& configuration = {}, const OptimizationOptions& options = {});

}  // namespace shardsim

#include "strategies/gradient_sync/data_parallel.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

void require_of_data_parallelism(bool holds, const std::string& what, const char* fix) {
  if (!holds) throw UsageError("E0795", "data parallelism: " + what, fix);
}

}  // namespace

std::int64_t num_kept(const GradientCompression& compression, std::int64_t numel) {
  // The fewest whose share is not below the ratio. The product alone may round above a whole
  // number, as 0.07 x 100 does; the quotient is as exact as the decimal was read.
  const auto size = static_cast<double>(numel);
  auto kept = static_cast<std::int64_t>(compression.ratio * size);
  while (static_cast<double>(kept) / size < compression.ratio) ++kept;
  while (kept > 0 && static_cast<double>(kept - 1) / size >= compression.ratio) --kept;
  return std::clamp<std::int64_t>(kept, std::min<std::int64_t>(numel, 1), numel);
}

std::int64_t num_blocks(const GradientCompression& compression, std::int64_t numel) {
  return (numel + compression.block_size - 1) / compression.block_size;
}

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

}  // namespace shardsim

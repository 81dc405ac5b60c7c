#include "strategies/gradient_sync/whole_matrices.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "strategies/model/layer.hpp"

namespace shardsim {

namespace {

constexpr double kLeastFilled = 0.9;
constexpr double kMostOfMean = 1.3;

std::int64_t work_of(const ParameterSpec& spec) {
  const std::int64_t columns = spec.shape[spec.shape.rank() - 1];
  std::int64_t work = 0;
  for (const std::int64_t rows : spec.matrix_rows) {
    const std::int64_t smaller = std::min(rows, columns);
    work += std::max(rows, columns) * smaller * smaller;
  }
  return work;
}

std::size_t least_of(const std::vector<std::int64_t>& loads) {
  return to_size(std::min_element(loads.begin(), loads.end()) - loads.begin());
}

// The shard for `numel` elements more.
std::size_t shard_for(std::int64_t numel, double most, const std::vector<std::int64_t>& filled,
                      const std::vector<std::int64_t>& work) {
  std::size_t best = filled.size();
  for (std::size_t shard = 0; shard < filled.size(); ++shard) {
    if (static_cast<double>(filled[shard] + numel) > most) continue;
    if (best == filled.size() || work[shard] < work[best]) best = shard;
  }
  return best < filled.size() ? best : least_of(filled);
}

}  // namespace

WholeMatrixPacker::WholeMatrixPacker(int num_shards)
    : work_(to_size(num_shards), 0), loads_(to_size(num_shards), 0) {}

bool WholeMatrixPacker::is_full(std::int64_t numel, std::int64_t cap) const {
  if (numel_ == 0) return false;
  const double in_all_shards = static_cast<double>(loads_.size()) * static_cast<double>(largest_);
  const auto least = std::max(cap, static_cast<std::int64_t>(kLeastFilled * in_all_shards));
  const std::int64_t fullest = *std::max_element(loads_.begin(), loads_.end());
  return numel_ >= least && loads_[least_of(loads_)] + numel > fullest;
}

void WholeMatrixPacker::add(std::int64_t numel) {
  loads_[least_of(loads_)] += numel;
  numel_ += numel;
  largest_ = std::max(largest_, numel);
}

PackedMatrices WholeMatrixPacker::pack(const Model& model, const std::vector<int>& parameters) {
  const auto spec = [&](int parameter) -> const ParameterSpec& {
    return model.parameters()[to_size(parameter)];
  };
  std::vector<int> by_work = parameters;
  std::stable_sort(by_work.begin(), by_work.end(),
                   [&](int a, int b) { return work_of(spec(a)) > work_of(spec(b)); });
  const double most = kMostOfMean * static_cast<double>(numel_) / static_cast<double>(work_.size());
  std::vector<std::int64_t> filled(work_.size(), 0);
  std::vector<std::vector<int>> of_shard(work_.size());
  for (const int parameter : by_work) {
    const std::int64_t numel = spec(parameter).shape.numel();
    const std::size_t shard = shard_for(numel, most, filled, work_);
    filled[shard] += numel;
    work_[shard] += work_of(spec(parameter));
    of_shard[shard].push_back(parameter);
  }
  PackedMatrices packed;
  packed.shard = *std::max_element(filled.begin(), filled.end());
  for (std::size_t shard = 0; shard < of_shard.size(); ++shard) {
    std::int64_t at = static_cast<std::int64_t>(shard) * packed.shard;
    for (const int parameter : of_shard[shard]) {
      packed.parameters.push_back(parameter);
      packed.offsets.push_back(at);
      at += spec(parameter).shape.numel();
    }
  }
  std::fill(loads_.begin(), loads_.end(), 0);
  numel_ = 0;
  largest_ = 0;
  return packed;
}

}  // namespace shardsim

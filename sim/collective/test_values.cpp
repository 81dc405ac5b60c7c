#include "sim/collective/test_values.hpp"

#include <algorithm>
#include <cstring>

#include "sim/kernel/hash.hpp"

namespace shardsim {

namespace {

// Up to here every integer is a number of the type.
std::int64_t largest_exact(DType dtype) {
  switch (dtype) {
    case DType::fp8_e4m3:  // Not offered.
      return 16;
    case DType::int8:
      return 127;
    case DType::bf16:
      return 256;
    case DType::fp16:
      return 2048;
    case DType::fp32:
      return std::int64_t{1} << 24;
    case DType::fp64:
    case DType::int32:
    case DType::int64:
      return std::int64_t{1} << 30;
  }
  return 1;
}

}  // namespace

TestValues::TestValues(DType dtype, ReduceOp op, bool reduces, int ranks)
    : dtype_(dtype), op_(reduces ? op : ReduceOp::sum), ranks_(ranks) {
  constexpr std::int64_t kLargest = 97;
  const bool adds = reduces && (op == ReduceOp::sum || op == ReduceOp::avg);
  most_ = std::min<std::int64_t>(largest_exact(dtype), ranks);
  span_ = std::min(largest_exact(dtype) / (adds ? ranks : 1), kLargest);
  if (!reduces) return;
  reduced_.reserve(kPeriod);
  for (std::int64_t residue = 0; residue < kPeriod; ++residue) {
    reduced_.push_back(reduced(residue));
  }
}

double TestValues::at(int rank, std::int64_t index) const {
  const std::int64_t residue = index % kPeriod;
  if (op_ == ReduceOp::product) {  // Three ranks have a 2: the product is at most 8.
    return (rank + residue) % ranks_ < 3 ? 2.0 : 1.0;
  }
  if (span_ == 0) return (rank + residue) % ranks_ < most_ ? 1.0 : 0.0;
  RollingHash hash;
  hash.add(static_cast<std::uint64_t>(rank));
  hash.add(static_cast<std::uint64_t>(residue));
  return static_cast<double>(1 + hash.value() % static_cast<std::uint64_t>(span_));
}

double TestValues::reduced(std::int64_t residue) const {
  double result = at(0, residue);
  for (int rank = 1; rank < ranks_; ++rank) {
    const double value = at(rank, residue);
    switch (op_) {
      case ReduceOp::sum:
      case ReduceOp::avg:
        result += value;
        break;
      case ReduceOp::min:
        result = std::min(result, value);
        break;
      case ReduceOp::max:
        result = std::max(result, value);
        break;
      case ReduceOp::product:
        result *= value;
        break;
    }
  }
  return op_ == ReduceOp::avg ? result / ranks_ : result;
}

Tensor TestValues::pattern(int source, std::int64_t first, std::int64_t count) const {
  const Tensor pattern =
      Tensor::allocate(nullptr, MemoryCategory::activations, {count}, dtype_, false);
  for (std::int64_t i = 0; i < count; ++i) {
    pattern.set(i, source == kAll ? reduced_[static_cast<std::size_t>((first + i) % kPeriod)]
                                  : at(source, first + i));
  }
  return pattern;
}

void TestValues::fill(const Tensor& buffer, int rank, std::int64_t first) const {
  const Tensor one = pattern(rank, first, std::min(kPeriod, buffer.numel()));
  const std::int64_t period = one.num_bytes();
  for (std::int64_t at = 0; at < buffer.num_bytes(); at += period) {
    std::memcpy(buffer.data() + at, one.data(),
                static_cast<std::size_t>(std::min(period, buffer.num_bytes() - at)));
  }
}

std::int64_t TestValues::count_wrong(const Tensor& buffer, int source, std::int64_t first) const {
  const Tensor one = pattern(source, first, std::min(kPeriod, buffer.numel()));
  const auto size = static_cast<std::size_t>(size_of(dtype_));
  std::int64_t wrong = 0;
  for (std::int64_t at = 0; at < buffer.num_bytes(); at += one.num_bytes()) {
    const auto bytes = static_cast<std::size_t>(std::min(one.num_bytes(), buffer.num_bytes() - at));
    const std::byte* actual = buffer.data() + at;
    if (std::memcmp(actual, one.data(), bytes) == 0) continue;
    for (std::size_t i = 0; i < bytes; i += size) {
      if (std::memcmp(actual + i, one.data() + i, size) != 0) ++wrong;
    }
  }
  return wrong;
}

}  // namespace shardsim

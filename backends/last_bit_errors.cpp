#include "backends/last_bit_errors.hpp"

#include <bit>
#include <cmath>
#include <cstring>

#include "sim/kernel/hash.hpp"
#include "sim/kernel/rounding.hpp"

namespace shardsim {

namespace {

const LastBitErrors*& place() {
  thread_local const LastBitErrors* active = nullptr;
  return active;
}

// Flags, counts and small indices, which must stay what they are, and hardly ever are all of what
// came out of rounding.
bool are_small_whole_numbers(const Tensor& tensor) {
  constexpr double kLargest = 16.0;
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    const double value = tensor.get(i);
    if (std::fabs(value) > kLargest || value != std::floor(value)) return false;
  }
  return true;
}

}  // namespace

LastBitErrors::LastBitErrors(std::uint64_t seed)
    : seed_(seed), moved_(Carried::terms), before_(place()) {
  place() = this;
}

LastBitErrors::LastBitErrors(std::uint64_t seed, int sender)
    : seed_(seed), moved_(Carried::copies), sender_(sender), before_(place()) {
  place() = this;
}

LastBitErrors::~LastBitErrors() { place() = before_; }

const LastBitErrors* LastBitErrors::active() { return place(); }

Tensor LastBitErrors::applied(const Tensor& tensor, Carried moved, int sender) const {
  const DType dtype = tensor.dtype();
  const bool is_narrow = dtype == DType::fp32 || dtype == DType::bf16 || dtype == DType::fp16;
  const bool is_meant = moved == moved_ && (moved == Carried::terms || sender == sender_);
  if (!is_narrow || !is_meant || !tensor.has_data() || tensor.num_bytes() == 0) return tensor;
  const Tensor arrives =
      Tensor::allocate(nullptr, MemoryCategory::comm, tensor.shape(), dtype, /*meta=*/false);
  std::memcpy(arrives.wire_data(), tensor.wire_data(),
              static_cast<std::size_t>(tensor.num_bytes()));
  if (are_small_whole_numbers(arrives)) return arrives;
  for (std::int64_t i = 0; i < arrives.numel(); ++i) {
    arrives.set(i, neighbour(arrives.get(i), dtype, sender));
  }
  return arrives;
}

double LastBitErrors::neighbour(double value, DType dtype, int sender) const {
  if (value == 0.0 || !std::isfinite(value)) return value;
  const double size = std::fabs(value);
  const double spacing = spacing_at(size, dtype);
  RollingHash hash;
  hash.add(seed_);
  hash.add(std::bit_cast<std::uint64_t>(size));
  hash.add(std::int64_t{sender});
  const bool is_up = (hash.value() >> 63U) != 0;
  return std::copysign(is_up ? size + spacing : size - spacing, value);
}

}  // namespace shardsim

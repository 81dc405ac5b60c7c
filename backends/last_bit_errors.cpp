#include "backends/last_bit_errors.hpp"

#include <bit>
#include <cmath>

#include "sim/kernel/dtype.hpp"
#include "sim/kernel/hash.hpp"

#include "backends/reduce.hpp"

namespace shardsim {

namespace {

ExchangeObserver*& place() {
  thread_local ExchangeObserver* active = nullptr;
  return active;
}

bool are_small_whole_numbers(const Tensor& tensor) {
  constexpr double kLargest = 16.0;
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    const double value = tensor.get(i);
    if (std::fabs(value) > kLargest || value != std::floor(value)) return false;
  }
  return true;
}

bool has_numbers(const Tensor& tensor) {
  return tensor.defined() && tensor.has_data() && tensor.num_bytes() > 0;
}

}  // namespace

ExchangeObserver::ExchangeObserver() : before_(place()) { place() = this; }

ExchangeObserver::~ExchangeObserver() { place() = before_; }

ExchangeObserver* ExchangeObserver::active() { return place(); }

void CountsSent::note(Carried moved, int sender, const Tensor& tensor) {
  seen_[{moved, sender}].push_back(are_small_whole_numbers(tensor));
}

bool CountsSent::is_count(Carried moved, int sender, std::size_t call, const Tensor& tensor) const {
  const auto found = seen_.find({moved, sender});
  if (found != seen_.end() && call < found->second.size()) return found->second[call];
  return are_small_whole_numbers(tensor);
}

Tensor CountsWatch::arriving(const Tensor& tensor, Carried moved, int sender) {
  if (has_numbers(tensor)) counts_.note(moved, sender, unwatched_copy(tensor));
  return tensor;
}

Tensor LastBitErrors::arriving(const Tensor& tensor, Carried moved, int sender) {
  if (!has_numbers(tensor)) return tensor;
  const std::size_t call = calls_[{moved, sender}]++;
  const DType dtype = tensor.dtype();
  const bool is_narrow = dtype == DType::fp32 || dtype == DType::bf16 || dtype == DType::fp16;
  const bool is_meant = moved == Carried::terms ? !sender_ : sender_ == sender;
  if (!is_narrow || !is_meant) return tensor;
  const Tensor arrives = unwatched_copy(tensor);
  if (counts_.is_count(moved, sender, call, arrives)) return tensor;
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

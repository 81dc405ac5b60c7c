#include "backends/reduce.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

// How one element type is stored and in what it is accumulated.
template <class StoredT, class AccumulatorT>
struct Plain {
  using Stored = StoredT;
  using Accumulator = AccumulatorT;
  static Accumulator load(Stored value) { return static_cast<Accumulator>(value); }
  static Stored store(Accumulator value) { return static_cast<Stored>(value); }
};

struct Bf16 {
  using Stored = std::uint16_t;
  using Accumulator = float;
  static float load(Stored bits) { return from_bf16_bits(bits); }
  static Stored store(float value) { return to_bf16_bits(value); }
};

struct Fp16 {
  using Stored = std::uint16_t;
  using Accumulator = float;
  static float load(Stored bits) { return from_fp16_bits(bits); }
  static Stored store(float value) { return to_fp16_bits(value); }
};

// Integers wrap around, as on the devices; going through unsigned keeps that defined.
template <class T>
T add(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    return a + b;
  }
}

template <class T>
T multiply(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  } else {
    return a * b;
  }
}

template <class T>
T combine(T a, T b, ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
      return add(a, b);
    case ReduceOp::min:
      return std::min(a, b);
    case ReduceOp::max:
      return std::max(a, b);
    case ReduceOp::product:
      return multiply(a, b);
  }
  return a;
}

template <class Element>
typename Element::Accumulator load_at(const std::byte* from, std::int64_t index) {
  typename Element::Stored stored;
  std::memcpy(&stored, from + index * static_cast<std::int64_t>(sizeof(stored)), sizeof(stored));
  return Element::load(stored);
}

template <class Element>
void reduce_as(std::span<const std::byte* const> inputs, std::byte* output, std::int64_t count,
               ReduceOp op, ReductionOrder order, int chunk) {
  const auto size = static_cast<int>(inputs.size());
  const int first = order == ReductionOrder::ring ? (chunk + 1) % size : 0;
  for (std::int64_t i = 0; i < count; ++i) {
    auto sum = load_at<Element>(inputs[static_cast<std::size_t>(first)], i);
    for (int hop = 1; hop < size; ++hop) {
      const auto member = static_cast<std::size_t>((first + hop) % size);
      sum = combine(sum, load_at<Element>(inputs[member], i), op);
      if (order == ReductionOrder::ring) sum = Element::load(Element::store(sum));
    }
    if (op == ReduceOp::avg) {
      sum = static_cast<typename Element::Accumulator>(
          sum / static_cast<typename Element::Accumulator>(size));
    }
    const typename Element::Stored stored = Element::store(sum);
    std::memcpy(output + i * static_cast<std::int64_t>(sizeof(stored)), &stored, sizeof(stored));
  }
}

}  // namespace

const char* name_of(ReduceOp op) {
  static constexpr const char* kNames[] = {"sum", "avg", "min", "max", "product"};
  return kNames[static_cast<std::size_t>(op)];
}

void reduce_chunk(std::span<const std::byte* const> inputs, std::byte* output, std::int64_t count,
                  DType dtype, ReduceOp op, ReductionOrder order, int chunk) {
  switch (dtype) {
    case DType::fp64:
      return reduce_as<Plain<double, double>>(inputs, output, count, op, order, chunk);
    case DType::fp32:
      return reduce_as<Plain<float, float>>(inputs, output, count, op, order, chunk);
    case DType::bf16:
      return reduce_as<Bf16>(inputs, output, count, op, order, chunk);
    case DType::fp16:
      return reduce_as<Fp16>(inputs, output, count, op, order, chunk);
    case DType::int8:
      // Accumulated wider; the stored result wraps around once, at the end.
      return reduce_as<Plain<std::int8_t, std::int64_t>>(inputs, output, count, op, order, chunk);
    case DType::int32:
      return reduce_as<Plain<std::int32_t, std::int64_t>>(inputs, output, count, op, order, chunk);
    case DType::int64:
      return reduce_as<Plain<std::int64_t, std::int64_t>>(inputs, output, count, op, order, chunk);
    case DType::fp8_e4m3:
      break;
  }
  throw UsageError("E0505", "fp8 tensors cannot be reduced", "reduce in bf16 or fp32");
}

}  // namespace shardsim

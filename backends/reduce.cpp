#include "backends/reduce.hpp"

#include <algorithm>
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

template <float (*from_bits)(std::uint16_t), std::uint16_t (*to_bits)(float)>
struct Half {
  using Stored = std::uint16_t;
  using Accumulator = float;
  static float load(Stored bits) { return from_bits(bits); }
  static Stored store(float value) { return to_bits(value); }
};
using Bf16 = Half<from_bf16_bits, to_bf16_bits>;
using Fp16 = Half<from_fp16_bits, to_fp16_bits>;

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
void store_at(std::byte* to, std::int64_t index, typename Element::Accumulator value) {
  const typename Element::Stored stored = Element::store(value);
  std::memcpy(to + index * static_cast<std::int64_t>(sizeof(stored)), &stored, sizeof(stored));
}

template <class T>
T divide(T sum, int size) {
  return static_cast<T>(sum / static_cast<T>(size));
}

template <class Element>
void reduce_as(std::span<const std::byte* const> inputs, std::byte* output, std::int64_t count,
               ReduceOp op, ReductionOrder order, int chunk) {
  const auto size = static_cast<int>(inputs.size());
  const int first = order == ReductionOrder::wire ? (chunk + 1) % size : 0;
  for (std::int64_t i = 0; i < count; ++i) {
    auto sum = load_at<Element>(inputs[static_cast<std::size_t>(first)], i);
    for (int hop = 1; hop < size; ++hop) {
      const auto member = static_cast<std::size_t>((first + hop) % size);
      sum = combine(sum, load_at<Element>(inputs[member], i), op);
      if (order == ReductionOrder::wire) sum = Element::load(Element::store(sum));
    }
    if (op == ReduceOp::avg) sum = divide(sum, size);
    store_at<Element>(output, i, sum);
  }
}

// Calls `work` with the element type that represents `dtype`.
template <class Work>
void with_element(DType dtype, Work&& work) {
  switch (dtype) {
    case DType::fp64:
      return work(Plain<double, double>());
    case DType::fp32:
      return work(Plain<float, float>());
    case DType::bf16:
      return work(Bf16());
    case DType::fp16:
      return work(Fp16());
    case DType::int8:
      // Accumulated wider; the stored result wraps around once, at the end.
      return work(Plain<std::int8_t, std::int64_t>());
    case DType::int32:
      return work(Plain<std::int32_t, std::int64_t>());
    case DType::int64:
      return work(Plain<std::int64_t, std::int64_t>());
    case DType::fp8_e4m3:
    case DType::fp4_e2m1:
      break;
  }
  throw UsageError("E0505", "fp8 tensors cannot be reduced", "reduce in bf16 or fp32");
}

}  // namespace

const char* name_of(ReduceOp op) {
  static constexpr const char* kNames[] = {"sum", "avg", "min", "max", "product"};
  return kNames[static_cast<std::size_t>(op)];
}

void reduce_chunk(std::span<const std::byte* const> inputs, std::byte* output, std::int64_t count,
                  DType dtype, ReduceOp op, ReductionOrder order, int chunk) {
  with_element(dtype, [&]<class Element>(Element) {
    reduce_as<Element>(inputs, output, count, op, order, chunk);
  });
}

Tensor unwatched_copy(const Tensor& tensor) {
  Tensor copy = Tensor::allocate(nullptr, MemoryCategory::comm, tensor.shape(), tensor.dtype(),
                                 !tensor.has_data());
  if (copy.has_data()) copy_bytes(copy.wire_data(), tensor.wire_data(), copy.num_bytes());
  return copy;
}

void divide_chunk(std::byte* data, std::int64_t count, DType dtype, int divisor) {
  with_element(dtype, [&]<class Element>(Element) {
    for (std::int64_t i = 0; i < count; ++i) {
      store_at<Element>(data, i, divide(load_at<Element>(data, i), divisor));
    }
  });
}

}  // namespace shardsim

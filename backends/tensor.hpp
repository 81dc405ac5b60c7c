#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "sim/kernel/call_site.hpp"
#include "sim/kernel/dtype.hpp"
#include "sim/kernel/memory_ledger.hpp"

#include "backends/quantized_scales.hpp"

// A tensor is a shape, an element type, and storage that may have no data ("meta"). Strategies
// never ask which: sizes are known, and Runtime::compute skips arithmetic that has no data.
namespace shardsim {

/// Up to four dimensions, row-major (the last one is contiguous). Kept small, because a rank of a
/// large plan holds hundreds of tensors: all dimensions but the first must fit in 31 bits.
class Shape {
 public:
  static constexpr int kMaxRank = 4;
  Shape() = default;
  /// Throws UsageError on a negative dimension or more than kMaxRank, LimitError when the number
  /// of elements leaves 64 bits or a dimension after the first leaves 31.
  Shape(std::initializer_list<std::int64_t> dims) {
    bool fits = dims.size() <= static_cast<std::size_t>(kMaxRank);
    std::int64_t numel = 1;
    for (const std::int64_t dim : dims) {
      fits = fits && dim >= 0 && !__builtin_mul_overflow(numel, dim, &numel) &&
             (rank_ == 0 || dim <= kLargestInner);
      if (!fits) refuse(dims);
      if (rank_ == 0) {
        first_ = dim;
      } else {
        inner_[static_cast<std::size_t>(rank_ - 1)] = static_cast<std::int32_t>(dim);
      }
      ++rank_;
    }
  }

  [[nodiscard]] int rank() const { return rank_; }
  /// REQUIRES: 0 <= axis < rank().
  [[nodiscard]] std::int64_t operator[](int axis) const {
    return axis == 0 ? first_ : inner_[static_cast<std::size_t>(axis - 1)];
  }
  [[nodiscard]] std::int64_t numel() const { return first_ * inner_[0] * inner_[1] * inner_[2]; }
  /// "[2, 16, 64]".
  [[nodiscard]] std::string to_string() const;
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  static constexpr std::int64_t kLargestInner = std::numeric_limits<std::int32_t>::max();
  [[noreturn]] static void refuse(std::initializer_list<std::int64_t> dims);

  std::int64_t first_ = 1;  // Dimensions that are not there are 1.
  std::array<std::int32_t, kMaxRank - 1> inner_{1, 1, 1};
  int rank_ = 0;
};

class Tensor;

/// How data are touched; `any` where that cannot be told.
enum class Access : std::uint8_t { read, write, any };

/// Told of every access to the data of marked tensors, but for those through wire_data(): so that
/// touching a buffer that a communication still uses is seen, and where.
class AccessListener {
 public:
  virtual ~AccessListener() = default;
  virtual void touched(const Tensor& part, Access access, CallSite site) = 0;
};
/// Listener of this thread's run; null: none.
[[nodiscard]] AccessListener*& access_listener();

namespace detail {
// One allocation, shared by the views of it. Counted without atomics: a run lives on one thread.
struct Storage {
  int references = 0;
  MemoryCategory category = MemoryCategory::activations;
  bool marked = false;  // Accesses are to be told.
  AllocationMark mark = 0;
  QuantizedScales scales;
  MemoryLedger* ledger = nullptr;  // Null: not accounted (oracle, tests).
  std::int64_t bytes = 0;
  std::byte* data = nullptr;  // Null: meta.

  // From a free list of this thread: a plan makes and drops one per operation and rank.
  static void* operator new(std::size_t size);
  static void operator delete(void* storage) noexcept;
};
}  // namespace detail

/// A value type: copies and views share storage; the last one releases it in the ledger, which it
/// must not outlive. Plans copy and drop it several times per operation and rank: hence inline.
class Tensor {
 public:
  Tensor() = default;
  /// A new zero-filled allocation, entered in `ledger` if given, without data if `meta`.
  static Tensor allocate(MemoryLedger* ledger, MemoryCategory category, const Shape& shape,
                         DType dtype, bool meta);
  Tensor(const Tensor& other) noexcept
      : Tensor(other.storage_, other.offset_bytes_, other.shape_, other.dtype_) {}
  Tensor(Tensor&& other) noexcept
      : storage_(std::exchange(other.storage_, nullptr)),
        offset_bytes_(other.offset_bytes_),
        shape_(other.shape_),
        dtype_(other.dtype_) {}
  Tensor& operator=(Tensor other) noexcept {
    std::swap(storage_, other.storage_);
    offset_bytes_ = other.offset_bytes_;
    shape_ = other.shape_;
    dtype_ = other.dtype_;
    return *this;
  }
  ~Tensor() {
    if (storage_ != nullptr && --storage_->references == 0) drop(storage_);
  }

  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] std::int64_t numel() const { return shape_.numel(); }
  [[nodiscard]] std::int64_t num_bytes() const { return shape_.numel() * size_of(dtype_); }
  /// False for a default-constructed tensor; a tensor of zero elements is defined.
  [[nodiscard]] bool defined() const { return storage_ != nullptr; }
  [[nodiscard]] bool has_data() const { return storage_ != nullptr && storage_->data != nullptr; }

  /// `shape.numel()` consecutive elements from element `first` of this (contiguous) tensor.
  /// Throws UsageError when they reach past the end.
  [[nodiscard]] Tensor view(std::int64_t first, const Shape& shape) const {
    if (first < 0 || shape.numel() > numel() - first) refuse_view(first, shape);
    return {storage_, offset_bytes_ + first * size_of(dtype_), shape, dtype_};
  }
  [[nodiscard]] Tensor flat() const { return view(0, Shape{numel()}); }
  /// Another view of the allocation, from byte `offset_bytes` of it on. REQUIRES: it fits.
  [[nodiscard]] Tensor reshaped(std::int64_t offset_bytes, const Shape& shape, DType dtype) const {
    return {storage_, offset_bytes, shape, dtype};
  }

  /// First byte of the data. REQUIRES: has_data().
  [[nodiscard]] std::byte* data(CallSite site = CallSite::here()) const {
    touch(Access::any, site);
    return wire_data();
  }
  /// The same for backends: they move data that nothing else may touch.
  [[nodiscard]] std::byte* wire_data() const { return storage_->data + offset_bytes_; }
  /// Element access through double, rounding once when storing (tests, initialisation, losses).
  /// REQUIRES: has_data(), index in range. 64-bit integers beyond 2^53 need data().
  [[nodiscard]] double get(std::int64_t index, CallSite site = CallSite::here()) const;
  void set(std::int64_t index, double value, CallSite site = CallSite::here()) const;
  /// Those of the allocation; no backend moves them. REQUIRES: defined().
  [[nodiscard]] const QuantizedScales& scales() const { return storage_->scales; }
  void set_scales(QuantizedScales scales) const { storage_->scales = std::move(scales); }
  // For who watches buffers.
  /// Whether both have the same allocation.
  [[nodiscard]] bool shares_storage(const Tensor& other) const {
    return storage_ != nullptr && storage_ == other.storage_;
  }
  /// Offset of the first byte within the allocation.
  [[nodiscard]] std::int64_t offset_bytes() const { return offset_bytes_; }
  /// That of the allocation; 0 for none.
  [[nodiscard]] AllocationMark allocation_mark() const {
    return storage_ == nullptr ? 0 : storage_->mark;
  }
  /// Tensors that hold the allocation, this one included.
  [[nodiscard]] int num_holders() const { return storage_ == nullptr ? 0 : storage_->references; }
  /// For the whole allocation. REQUIRES: defined().
  void mark(bool on) const { storage_->marked = on; }
  /// Tells the listener, if the allocation is marked. REQUIRES: defined().
  void touch(Access access, CallSite site) const {
    if (storage_->marked) tell(access, site);
  }

 private:
  Tensor(detail::Storage* storage, std::int64_t offset_bytes, const Shape& shape,
         DType dtype) noexcept
      : storage_(storage), offset_bytes_(offset_bytes), shape_(shape), dtype_(dtype) {
    if (storage_ != nullptr) ++storage_->references;
  }
  static void drop(detail::Storage* storage) noexcept;
  void tell(Access access, CallSite site) const;
  [[noreturn]] void refuse_view(std::int64_t first, const Shape& shape) const;

  detail::Storage* storage_ = nullptr;
  std::int64_t offset_bytes_ = 0;
  Shape shape_;
  DType dtype_ = DType::fp32;
};

/// Reads elements [0, out.size()) as double. REQUIRES: has_data(), out.size() == numel().
void load(const Tensor& tensor, std::span<double> out, CallSite site = CallSite::here());
/// Writes all elements, each rounded once to the tensor's dtype (nearest, ties to even; integers
/// truncate). REQUIRES: has_data(), values.size() == numel().
void store(const Tensor& tensor, std::span<const double> values, CallSite site = CallSite::here());

}  // namespace shardsim

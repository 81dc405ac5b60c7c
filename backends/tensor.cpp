#include "backends/tensor.hpp"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "sim/kernel/error.hpp"

#include "backends/stochastic_rounding.hpp"

namespace shardsim {

namespace {

// Slots of one size, carved from slabs that are kept for the life of the thread. Which ones are
// free stands beside them, not in them: among thousands of ranks a slot is no longer in the cache
// when its turn comes, and reading it to find the next one would wait for memory with every tensor.
class StorageSlots {
 public:
  void* take() {
    if (free_.empty()) add_slab();
    void* slot = free_.back();
    free_.pop_back();
    if (free_.size() >= kAhead) __builtin_prefetch(free_[free_.size() - kAhead], 1);
    return slot;
  }
  void give_back(void* storage) { free_.push_back(storage); }

 private:
  struct alignas(detail::Storage) Slot {
    std::array<std::byte, sizeof(detail::Storage)> bytes;
  };
  static constexpr std::size_t kSlotsPerSlab = 256;
  static constexpr std::size_t kAhead = 4;  // Tensors made until a slot asked for now has come.

  void add_slab() {
    slabs_.push_back(std::make_unique<std::array<Slot, kSlotsPerSlab>>());
    // So that giving back, which may not throw, never allocates.
    const std::size_t slots = slabs_.size() * kSlotsPerSlab;
    if (free_.capacity() < slots) free_.reserve(2 * slots);
    for (Slot& slot : *slabs_.back()) give_back(&slot);
  }

  std::vector<std::unique_ptr<std::array<Slot, kSlotsPerSlab>>> slabs_;
  std::vector<void*> free_;
};

// Never destroyed: a tensor with static lifetime may be dropped after the thread's own objects.
// Slots of a thread that has ended stay reachable, so that no tool reports them as leaked.
StorageSlots* new_slots() {
  static std::mutex mutex;
  static auto* all = new std::vector<StorageSlots*>();
  const std::lock_guard<std::mutex> lock(mutex);
  all->push_back(new StorageSlots());
  return all->back();
}

StorageSlots& storage_slots() {
  thread_local StorageSlots* slots = new_slots();
  return *slots;
}

}  // namespace

void* detail::Storage::operator new(std::size_t) { return storage_slots().take(); }
void detail::Storage::operator delete(void* storage) noexcept {
  if (storage != nullptr) storage_slots().give_back(storage);
}

void Shape::refuse(std::initializer_list<std::int64_t> dims) {
  if (dims.size() > static_cast<std::size_t>(kMaxRank)) {
    throw UsageError("E0501",
                     "a shape of " + std::to_string(dims.size()) + " dimensions; at most 4 fit",
                     "merge neighbouring dimensions into one");
  }
  for (const std::int64_t* dim = dims.begin(); dim != dims.end(); ++dim) {
    if (*dim < 0) {
      throw UsageError("E0502", "a dimension is " + std::to_string(*dim),
                       "give every dimension as 0 or more elements");
    }
    if (dim != dims.begin() && *dim > kLargestInner) {
      throw LimitError("E0303", "a tensor's dimension " + std::to_string(*dim) +
                                    " after the first does not fit in 31 bits");
    }
  }
  throw LimitError("E0303", "a tensor's element count does not fit in 64 bits");
}

std::string Shape::to_string() const {
  std::string text = "[";
  for (int axis = 0; axis < rank_; ++axis) {
    if (axis > 0) text += ", ";
    text += std::to_string((*this)[axis]);
  }
  return text + "]";
}

Tensor Tensor::allocate(MemoryLedger* ledger, MemoryCategory category, const Shape& shape,
                        DType dtype, bool meta) {
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(shape.numel(), size_of(dtype), &bytes)) {
    throw LimitError("E0303", "a tensor's size in bytes does not fit in 64 bits");
  }
  auto storage = std::make_unique<detail::Storage>();
  storage->category = category;
  storage->bytes = bytes;
  if (!meta) {
    // One byte at least, so that an empty tensor still counts as having data.
    storage->data = static_cast<std::byte*>(std::calloc(static_cast<std::size_t>(bytes) + 1, 1));
    if (storage->data == nullptr) throw std::bad_alloc();
  }
  if (ledger != nullptr) {
    const AllocationOwner owner(storage->mark);
    ledger->allocate(category, bytes);
    storage->ledger = ledger;
  }
  return {storage.release(), 0, shape, dtype};
}

void Tensor::drop(detail::Storage* storage) noexcept {
  if (storage->ledger != nullptr) {
    const AllocationOwner owner(storage->mark);
    storage->ledger->release(storage->category, storage->bytes);
  }
  std::free(storage->data);
  delete storage;
}

void Tensor::refuse_view(std::int64_t first, const Shape& shape) const {
  throw UsageError("E0503", "a view of elements " + std::to_string(first) + " to " +
                                std::to_string(first + shape.numel()) +
                                " reaches past a tensor of shape " + shape_.to_string());
}

namespace {

// How an element of a type is read and written, through double.
template <class Stored>
struct ElementAs {
  static double read(const std::byte* from) { return static_cast<double>(raw(from)); }
  static void write(std::byte* to, double value) { put(to, static_cast<Stored>(value)); }

 protected:
  static Stored raw(const std::byte* from) {
    Stored stored;
    std::memcpy(&stored, from, sizeof(Stored));
    return stored;
  }
  static void put(std::byte* to, Stored stored) { std::memcpy(to, &stored, sizeof(Stored)); }
};
struct Bf16Element : ElementAs<std::uint16_t> {
  static double read(const std::byte* from) { return from_bf16_bits(raw(from)); }
  static void write(std::byte* to, double value) { put(to, to_bf16_bits(value)); }
};
struct Fp16Element : ElementAs<std::uint16_t> {
  static double read(const std::byte* from) { return from_fp16_bits(raw(from)); }
  static void write(std::byte* to, double value) { put(to, to_fp16_bits(value)); }
};

// Calls `body` once for all elements: a choice for each would take longer than reading it.
template <class Body>
auto with_elements_of(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::fp64:
      return body(ElementAs<double>());
    case DType::fp32:
      return body(ElementAs<float>());
    case DType::bf16:
      return body(Bf16Element());
    case DType::fp16:
      return body(Fp16Element());
    case DType::int8:
      return body(ElementAs<std::int8_t>());
    case DType::int32:
      return body(ElementAs<std::int32_t>());
    case DType::int64:
      return body(ElementAs<std::int64_t>());
    case DType::fp8_e4m3:
    case DType::fp4_e2m1:
      break;
  }
  throw UsageError("E0504", "fp8 tensors have a size but no arithmetic yet", "use bf16");
}

}  // namespace

AccessListener*& access_listener() {
  thread_local AccessListener* listener = nullptr;
  return listener;
}

void Tensor::tell(Access access, CallSite site) const {
  if (AccessListener* const listener = access_listener()) listener->touched(*this, access, site);
}

double Tensor::get(std::int64_t index, CallSite site) const {
  if (storage_->marked) view(index, {1}).tell(Access::read, site);
  const std::byte* const from = wire_data() + index * size_of(dtype_);
  return with_elements_of(dtype_, [&](auto element) { return element.read(from); });
}

void Tensor::set(std::int64_t index, double value, CallSite site) const {
  if (storage_->marked) view(index, {1}).tell(Access::write, site);
  std::byte* const to = wire_data() + index * size_of(dtype_);
  if (const StochasticRounding* const drawn = StochasticRounding::active()) {
    value = drawn->round(value, dtype_);
  }
  with_elements_of(dtype_, [&](auto element) { element.write(to, value); });
}

void load(const Tensor& tensor, std::span<double> out, CallSite site) {
  const std::int64_t width = size_of(tensor.dtype());
  tensor.touch(Access::read, site);
  const std::byte* from = tensor.wire_data();
  with_elements_of(tensor.dtype(), [&](auto element) {
    for (double& value : out) {
      value = element.read(from);
      from += width;
    }
  });
}

void store(const Tensor& tensor, std::span<const double> values, CallSite site) {
  const std::int64_t width = size_of(tensor.dtype());
  tensor.touch(Access::write, site);
  std::byte* to = tensor.wire_data();
  const StochasticRounding* const drawn = StochasticRounding::active();
  with_elements_of(tensor.dtype(), [&](auto element) {
    for (const double value : values) {
      element.write(to, drawn == nullptr ? value : drawn->round(value, tensor.dtype()));
      to += width;
    }
  });
}

}  // namespace shardsim

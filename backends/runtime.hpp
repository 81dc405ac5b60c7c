#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/hardware/compute_op.hpp"

#include "backends/tensor.hpp"

// A rank's actions besides communication: compute and allocate. Model code sees only this, so it is
// the same code on one device, in the simulation (with and without data) and on a cluster.
namespace shardsim {

class Repeats;

class Runtime {
 public:
  virtual ~Runtime() = default;

  /// Whether tensors of this run have data. For backends and checks only: a strategy or model that
  /// asks would train something else than it plans.
  [[nodiscard]] virtual bool has_data() const = 0;
  /// Null where memory is not accounted (the oracle).
  [[nodiscard]] virtual MemoryLedger* ledger() = 0;

  /// Ledger of host memory that is allocated for this rank; null where it is not accounted.
  [[nodiscard]] virtual MemoryLedger* host_ledger() { return nullptr; }

  /// A zero-filled tensor in the host's memory. Arithmetic wants its operands on the device.
  [[nodiscard]] Tensor allocate_on_host(MemoryCategory category, const Shape& shape, DType dtype) {
    return Tensor::allocate(host_ledger(), category, shape, dtype, !has_data());
  }
  /// Copies all of `from` to `to` over the host link, on the stream in use. Equal sizes and dtypes.
  /// Bytes that nobody reads (see occupy()) cost the same.
  void copy_over_host_link(const char* name, const Tensor& to, const Tensor& from,
                           CallSite site = CallSite::here()) {
    compute({name, ComputeKind::host_transfer, to.dtype(), 0, to.num_bytes()}, [&] {
      to.touch(Access::write, site);
      from.touch(Access::read, site);
      if (!from.has_data()) return;
      std::memcpy(to.wire_data(), from.wire_data(), static_cast<std::size_t>(to.num_bytes()));
    });
    to.set_scales(from.scales());  // Without data, too: they tell whose rows these are.
  }

  // Streams of the device that work beside each other, and events that order them. A backend
  // without them does all in the order of the calls, which is one of the orders that events allow.

  /// So many of both; they count from 0. To be called before any other work; a rank begins and ends
  /// on stream 0.
  virtual void open_streams(std::uint32_t /*streams*/, std::uint32_t /*events*/) {}
  /// Computing, posts and waits are those of this stream from here on.
  virtual void use_stream(std::uint32_t /*stream*/) {}
  /// The event is all that the stream in use has to do so far.
  virtual void record_event(std::uint32_t /*event*/) {}
  /// The stream in use goes on when the event has come.
  virtual void wait_event(std::uint32_t /*event*/) {}

  /// A zero-filled tensor in the ledger. The fill itself is not charged.
  [[nodiscard]] Tensor allocate(MemoryCategory category, const Shape& shape, DType dtype) {
    return Tensor::allocate(ledger(), category, shape, dtype, !has_data());
  }

  /// Bytes that nobody reads, in the ledger as long as the tensor lives: what a framework's kernels
  /// keep and ours do not. Undefined if there are none.
  [[nodiscard]] Tensor occupy(MemoryCategory category, double bytes) {
    const auto whole = static_cast<std::int64_t>(bytes);
    if (whole == 0) return {};
    return Tensor::allocate(ledger(), category, Shape{whole}, DType::int8, /*meta=*/true);
  }

  class Graph;         // backends/graph_scope.hpp
  class OutsideGraph;  // The same.

  /// Charges `op` to the compute stream and runs `arithmetic` if there is data to work on.
  /// `arithmetic` must do nothing but read and write tensor elements.
  template <class Arithmetic>
  void compute(const ComputeOp& op, Arithmetic&& arithmetic) {
    if (next_launch_ == HostLaunch::each_kernel) {
      charge(op);
    } else {
      ComputeOp captured = op;
      captured.launch = std::exchange(next_launch_, HostLaunch::within_graph);
      charge(captured);
    }
    if (has_data()) std::forward<Arithmetic>(arithmetic)();
  }

  /// Fills `tensor`, whole and dense, with zeros: one memory-bound operation called `name`.
  void zero(const char* name, const Tensor& tensor, CallSite site = CallSite::here()) {
    compute({name, ComputeKind::memory_bound, tensor.dtype(), 0, tensor.num_bytes()}, [&] {
      tensor.touch(Access::write, site);
      std::memset(tensor.wire_data(), 0, static_cast<std::size_t>(tensor.num_bytes()));
    });
  }

  /// Runs `work` if there is data, and charges nothing: filling batches and initial weights, and
  /// counting what only data tell. The host does these while the device computes.
  template <class Work>
  void off_the_clock(Work&& work) {
    if (has_data()) std::forward<Work>(work)();
  }

  /// Takes decisions that depend on values. With data the answer is `actual`, and is recorded if
  /// the run keeps a record. Without data it is that of the replayed record, or `planned`, the
  /// plan's assumption. Each rank must take the same decisions in the same order with and without
  /// data. `name`: the question, "skip step".
  [[nodiscard]] bool decide(const char* name, bool actual, bool planned) {
    if (!has_data()) return planned_decision(name, planned);
    record_decision(name, actual);
    return actual;
  }

  /// The same door for whole numbers: how many tokens go where. `actual()` is asked where there are
  /// data; nothing comes back where neither they nor a record can tell, and the caller does what a
  /// plan assumes.
  using Numbers = std::vector<std::int64_t>;
  template <class Actual>
  [[nodiscard]] std::optional<Numbers> decide_numbers(const char* name, Actual&& actual) {
    if (!has_data()) return replayed_numbers(name);
    Numbers numbers = std::forward<Actual>(actual)();
    record_numbers(name, numbers);
    return numbers;
  }

  /// Adds to what a run counts under a name for its result, over all ranks: element i to number
  /// first + i. Free of charge, and nobody reads it before the run has ended.
  virtual void tally(const char* /*name*/, std::int64_t /*first*/,
                     std::span<const std::int64_t> /*amounts*/) {}

  /// Null where work that is done again and again is run each time (backends/repeats.hpp).
  [[nodiscard]] virtual Repeats* repeats() { return nullptr; }

  /// Element 0 of `tensor`; 0 where nobody can know it. Not charged.
  [[nodiscard]] double read_scalar(const Tensor& tensor) const {
    return has_data() ? tensor.get(0) : 0.0;
  }
  /// Sets element 0 of `tensor`. Not charged.
  void write_scalar(const Tensor& tensor, double value) const {
    if (has_data()) tensor.set(0, value);
  }

 protected:
  /// Adds the device's price of `op` to this rank's compute stream.
  virtual void charge(const ComputeOp& op) = 0;
  virtual void record_decision(const char* /*name*/, bool /*answer*/) {}
  [[nodiscard]] virtual bool planned_decision(const char* /*name*/, bool planned) {
    return planned;
  }
  virtual void record_numbers(const char* /*name*/, const Numbers& /*numbers*/) {}
  [[nodiscard]] virtual std::optional<Numbers> replayed_numbers(const char* /*name*/) {
    return std::nullopt;
  }

 private:
  HostLaunch next_launch_ = HostLaunch::each_kernel;
};

/// One device without clock or ledger.
template <bool kHasData>
class UntimedRuntime final : public Runtime {
 public:
  [[nodiscard]] bool has_data() const override { return kHasData; }
  [[nodiscard]] MemoryLedger* ledger() override { return nullptr; }

 protected:
  void charge(const ComputeOp&) override {}
};

/// Unit tests compute on it, and the oracle on one like it.
using LocalRuntime = UntimedRuntime<true>;
/// Nothing but shapes: what a model does in which order is learned on it.
using ShapesOnlyRuntime = UntimedRuntime<false>;

}  // namespace shardsim

#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "strategies/gradient_sync/gradient_sync.hpp"
#include "strategies/gradient_sync/matrix_update.hpp"

namespace shardsim {

/// State that lives in host memory or on the device, by a flag, and is worked on in either case.
[[nodiscard]] inline Tensor allocate_home(Runtime& runtime, bool on_host, MemoryCategory category,
                                          const Shape& shape, DType dtype) {
  return on_host ? runtime.allocate_on_host(category, shape, dtype)
                 : runtime.allocate(category, shape, dtype);
}

/// A tensor while it is worked on: itself where it lives on the device, else a copy there, which
/// `put_back` writes home. Each way is one transfer over the host link.
class OnDevice {
 public:
  OnDevice(Runtime& runtime, bool on_host, MemoryCategory category, Tensor home)
      : runtime_(runtime), on_host_(on_host), home_(std::move(home)) {
    if (!on_host) {
      here_ = home_;
      return;
    }
    here_ = runtime.allocate(category, home_.shape(), home_.dtype());
    runtime.copy_over_host_link("copy_to_device", here_, home_);
  }
  [[nodiscard]] const Tensor& tensor() const { return here_; }
  void put_back() {
    if (on_host_) runtime_.copy_over_host_link("copy_to_host", home_, here_);
  }

 private:
  Runtime& runtime_;
  bool on_host_;
  Tensor home_;
  Tensor here_;
};

/// The update of replicas that train apart, after their own update when a period ends. They average
/// the weights that each owns (a shard if weights are sharded): one all_reduce over the replicas
/// per period, in the master dtype. See LocalTraining for the two rules and their sources.
///
/// DiLoCo keeps, in the ledger's optimizer category, the weights of the last average and the outer
/// momentum; local SGD keeps nothing.
class OuterUpdate {
 public:
  /// `total`: elements that this rank owns of all chunks, in flat buffers like its other state.
  OuterUpdate(const SyncPlan& plan, Runtime& runtime, const Mesh& mesh, std::int64_t total);

  /// Whether update number `step`, counted from 1, ends a period.
  [[nodiscard]] bool is_due(std::int64_t step) const {
    return plan_.local.acts() && step % plan_.local.sync_period == 0;
  }
  /// A part of a chunk, in all its places; undefined where it is not kept.
  struct Part {
    Tensor master;    ///< The replica's own weights; those of the average afterwards.
    Tensor start;     ///< Weights at the start of the period.
    Tensor momentum;  ///< Momentum of the outer optimizer.
  };
  void apply(const Part& part, const CallOptions& options);

  [[nodiscard]] const Tensor& start() const { return start_; }
  [[nodiscard]] const Tensor& momentum() const { return momentum_; }

 private:
  const SyncPlan& plan_;
  Runtime& runtime_;
  const Mesh& mesh_;
  Tensor start_;
  Tensor momentum_;
};

/// State that this rank updates: one of `num_owners` equal parts of every chunk (all of it with one
/// owner). It has master weights if arithmetic uses a narrower dtype, and the state of the
/// optimizer of each chunk: chunks of matrices have Muon's, all others that of the elementwise one.
class OwnedState {
 public:
  /// `num_owners`: 1, or the number of shards that the mesh cuts such weights into.
  OwnedState(const SyncPlan& plan, Runtime& runtime, const Mesh& mesh, int num_owners);

  /// Elements of the owned part of a chunk, and where it begins in the chunk.
  [[nodiscard]] std::int64_t part(int chunk) const;
  [[nodiscard]] std::int64_t begin(int chunk) const { return owner_ * part(chunk); }
  /// The owned part of a chunk within a flat buffer that holds this rank's parts of all chunks.
  [[nodiscard]] Tensor part_of_shards(const Tensor& shards, int chunk) const;
  /// The owned part of a chunk's bytes, which all owners have equal parts of.
  [[nodiscard]] Tensor part_of_bytes(const Tensor& chunk) const {
    const std::int64_t own = chunk.numel() / num_owners_;
    return chunk.view(owner_ * own, {own});
  }
  /// The owned part of a chunk within a flat buffer of all chunks.
  [[nodiscard]] Tensor part_of_full(const Tensor& full, int chunk) const;
  /// Elements of a buffer for this rank's parts of all chunks.
  [[nodiscard]] std::int64_t total() const { return plan_.layout->padded() / num_owners_; }

  /// Initial values of elements [begin, begin + values.numel()) of a chunk.
  void initialize(int chunk, std::int64_t begin, const Tensor& values) const;
  /// Fills the master weights, once the plan's initial values are known.
  void initialize_master();
  /// One optimizer step of the owned part of a chunk; `weights` and `gradient` are that part, on
  /// the device. If replicas train apart, it also averages them when a period ends. Without `casts`
  /// the weights stay as they are until cast() has its turn.
  void update(int chunk, const Tensor& weights, const Tensor& gradient, double gradient_scale,
              std::int64_t step, bool casts = true);
  /// Weights become their masters. REQUIRES: masters on the device.
  void cast(int chunk, const Tensor& weights) const;
  void visit(const StateVisitor& visitor) const;
  /// Shows elements [begin, begin + values.numel()) of a chunk, piece by parameter.
  void visit_values(StateKind kind, std::string_view state, int chunk, std::int64_t begin,
                    const Tensor& values, const StateVisitor& visitor) const;

 private:
  // One state of the chunks of one rule.
  struct State {
    std::string_view name;
    bool matrices;
    Tensor values;
  };
  void add_state(std::string_view name, bool matrices);
  [[nodiscard]] Tensor part_of_state(const State& state, int chunk) const;
  [[nodiscard]] bool is_on_host(StateKind kind) const;
  void average(int chunk, const Tensor& master);

  const SyncPlan& plan_;
  Runtime& runtime_;
  PartIndex parts_of_rank_;
  int owner_;
  int num_owners_;
  Tensor master_;  // Undefined where weights are their own master.
  std::vector<State> state_;
  MatrixUpdate matrices_;
  OuterUpdate outer_;
  // For update(), which has them to itself: empty between its calls.
  std::vector<OnDevice> homes_;
  std::vector<Tensor> parts_;
};

}  // namespace shardsim

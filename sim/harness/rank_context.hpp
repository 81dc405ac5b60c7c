#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "sim/kernel/call_site.hpp"
#include "sim/kernel/diagnosis.hpp"

#include "backends/communicator.hpp"
#include "backends/runtime.hpp"
#include "backends/tagged_messages.hpp"

#include "strategies/mesh.hpp"

// The view of one rank of a program under test: its place, the network, the device, and a way to
// show its tensors. They are compared with those of the same program on one rank.
namespace shardsim {

class ShownState;

/// The kind of a shown tensor. It decides the code of a difference (sim/harness/codes.hpp).
enum class Shown : std::uint8_t {
  gradient,             ///< Gradient of a parameter, before the optimizer: GRAD_SCALE, GRAD_DIFF.
  parameter,            ///< After a step: PARAM_STALE, STATE_DIFF.
  optimizer_state,      ///< STATE_DIFF.
  activation_gradient,  ///< At a layer's input or output: GRAD_DIFF.
  output,               ///< Activations, logits, losses: OUT_DIFF.
  norm,                 ///< Norm of all gradients: NORM_DIFF.
  tokens,               ///< Rows that were routed and have come back: TOKEN_LOST.
  random,               ///< Masks and noise: RNG_STREAM.
};

struct ShowOptions {
  /// The tensor is elements [first, first + numel) of the whole ...
  std::int64_t first = 0;
  /// ... which has so many; -1: the tensor is the whole. Every element must be shown by some rank,
  /// and each by equally many (SHARD_COVER); those that are shown twice must be equal
  /// (REPLICA_DIVERGED).
  std::int64_t whole = -1;
  int step = 0;
  int microbatch = -1;  ///< -1: not of one.
};

/// A size of a program's data that a check chooses.
struct Extent {
  std::string name;
  std::int64_t value = 0;

  friend bool operator==(const Extent&, const Extent&) = default;
};

class RankContext {
 public:
  /// The common setting of all ranks of one run.
  struct Setting {
    int steps = 2;
    std::uint64_t seed = 1;
    DType precision = DType::fp64;
    const MeshShape* layout = nullptr;
    std::span<const Extent> extents = {};
  };
  /// All must outlive the context.
  RankContext(Runtime& runtime, Communicator& world, TaggedMessages& messages,
              const Setting& setting, ShownState& shown);

  [[nodiscard]] int rank() const { return world_.rank(); }
  [[nodiscard]] int size() const { return world_.size(); }
  /// How many steps to train; a program without steps may ignore it.
  [[nodiscard]] int steps() const { return setting_.steps; }
  [[nodiscard]] std::uint64_t seed() const { return setting_.seed; }
  [[nodiscard]] DType precision() const { return setting_.precision; }
  /// The layout that is checked (CheckOptions::layouts). Null for numbers of ranks, and for the
  /// reference, which is one rank.
  [[nodiscard]] const MeshShape* layout() const { return setting_.layout; }
  /// A size of the data that is checked (CheckOptions::extents). Throws UsageError (E1215) for a
  /// name that the check does not have.
  [[nodiscard]] std::int64_t extent(std::string_view name) const;

  [[nodiscard]] Communicator& world() { return world_; }
  /// Among all ranks; a group's own are Communicator::tagged_messages.
  [[nodiscard]] TaggedMessages& messages() { return messages_; }
  [[nodiscard]] Runtime& runtime() { return runtime_; }

  /// A flat tensor of `count` zeros, or of value(i), in this check's precision.
  [[nodiscard]] Tensor tensor(std::int64_t count, MemoryCategory category = MemoryCategory::comm);
  [[nodiscard]] Tensor tensor(std::int64_t count, const std::function<double(std::int64_t)>& value,
                              MemoryCategory category = MemoryCategory::comm);
  /// The same number in every run, on every rank and at every layout: uniform in [-1, 1), drawn
  /// from the seed, the name and the index.
  [[nodiscard]] double draw(std::string_view name, std::int64_t index) const;

  /// Shows a tensor of this rank, for comparison with the reference's of this name and step.
  /// Outside of time, trace and ledger. An undefined tensor ends the run (ARG_RANGE).
  void show(Shown what, const std::string& name, const Tensor& tensor,
            const ShowOptions& options = {}, CallSite site = CallSite::here());
  /// One number, the same on every rank that shows it.
  void show(Shown what, const std::string& name, double value, const ShowOptions& options = {},
            CallSite site = CallSite::here());
  /// This rank's part of the batch, in samples or tokens. Only for hints: if parts differ, a mean
  /// of means is not the mean.
  void share_of_batch(std::int64_t samples);

  /// Ends the run with CHECK_FAILED unless `holds`.
  void require(bool holds, const std::string& what, CallSite site = CallSite::here());

 private:
  void show_values(Shown what, const std::string& name, std::vector<double> values,
                   const ShowOptions& options, CallSite site);
  [[noreturn]] void fail(Diagnosis diagnosis, std::string action, CallSite site) const;

  Runtime& runtime_;
  Communicator& world_;
  TaggedMessages& messages_;
  const Setting& setting_;
  ShownState& shown_;
};

/// An SPMD program: every rank runs it. It may be run many times, and must not keep anything from
/// one run to the next.
using Program = std::function<void(RankContext&)>;

}  // namespace shardsim

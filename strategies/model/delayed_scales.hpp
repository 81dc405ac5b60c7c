#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "strategies/model/low_precision.hpp"
#include "strategies/model/parameter.hpp"

// Scales of whole tensors that are known before the tensors are (ScalingRecipe::delayed): those of
// the largest elements in past steps. They are state of the training, as biases of the choice of
// experts are. A tensor is an operand of a linear layer. Every step's largest element of it is that
// of all microbatches and ranks, so that no layout or schedule changes what is trained. Source:
// Transformer Engine at d0067d0d, fp8.py (DelayedScaling) and common/recipe/delayed_scaling.cu,
// which updates its history after each microbatch; so does AmaxUpdate::microbatch.
namespace shardsim {

/// When tensors of a set have been seen by this rank in a step.
enum class AmaxEnd : std::uint8_t { forward, backward, step };

class DelayedScales {
 public:
  /// The ranks that see other parts of a weight's tensors. Null: there are no others.
  struct Groups {
    Communicator* parts = nullptr;     ///< They have other parts of weights,
    Communicator* replicas = nullptr;  ///< and they see other samples.
  };

  explicit DelayedScales(const LowPrecision& low) : low_(low) {}
  /// Allocates the state of all tensors of a stage. REQUIRES: not called before, or with the same.
  void begin(Runtime& runtime, std::span<const ParameterSpec> parameters);
  [[nodiscard]] bool empty() const { return sets_.empty(); }

  /// Experts whose tensors lie one after the other; else 1.
  [[nodiscard]] std::int64_t num_matrices(const OperandSite& site) const {
    return place_of(site).matrices;
  }
  /// The factor of elements ahead of the cast. `matrix`: the expert, if there are several.
  [[nodiscard]] float multiplier(const OperandSite& site, std::int64_t matrix) const;
  /// An operand had this largest element. REQUIRES: data.
  void saw(const OperandSite& site, std::int64_t matrix, float largest);
  /// Nothing more is seen of these tensors: ranks agree, and scales are those of the new history.
  /// `chunk`: of which model chunk; those of a step are of all.
  void finish(Runtime& runtime, AmaxEnd end, int chunk, const Groups& dense, const Groups& experts);

  /// A checkpoint's part of one operand: [matrices, n] the history, the last step first, and
  /// [matrices] the multipliers.
  struct Held {
    OperandSite site;
    Tensor history;
    Tensor multipliers;
  };
  [[nodiscard]] std::vector<Held> held() const;

 private:
  // Tensors whose largest elements travel together.
  struct Set {
    AmaxEnd end;
    int chunk;
    bool is_expert;
    std::int64_t size = 0;
    std::vector<const NarrowFormat*> formats = {};
    Tensor largest = {};      // [size], of the current step.
    Tensor history = {};      // [size, n]
    Tensor multipliers = {};  // [size]
  };
  struct Place {
    std::size_t set = 0;
    std::int64_t first = 0;
    std::int64_t matrices = 0;
  };
  [[nodiscard]] const Place& place_of(const OperandSite& site) const;
  void add(const ParameterSpec& spec, OperandKind kind);
  void advance(Runtime& runtime, const Set& set) const;

  LowPrecision low_;
  std::vector<Set> sets_;
  std::vector<Place> places_;  // By parameter and kind.
};

}  // namespace shardsim

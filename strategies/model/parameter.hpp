#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backends/communicator.hpp"
#include "backends/runtime.hpp"
#include "backends/tensor.hpp"

// A model's parameters as a table, and how model code reaches them. Code outside the model decides
// on their memory, on gathers, and on finished gradients.
namespace shardsim {

struct LowPrecision;

/// Standard deviation of weights at their start, as GPT-2 has it.
inline constexpr double kInitScale = 0.02;

/// How a parameter starts. Values depend on (seed, parameter name, element index) only.
struct Init {
  enum class Kind { zeros, ones, bell, integers };
  Kind kind = Kind::bell;
  /// bell: standard deviation. integers: uniform whole numbers in [-scale, scale].
  double scale = kInitScale;
};

/// The ranks among which a parameter is cut: those of tensor parallelism, or, of experts, those of
/// expert parallelism.
enum class SplitRanks : std::uint8_t { tensor, expert };

/// How a parameter is cut: part p of `parts` along one dimension. Where several matrices lie one
/// after the other in it (q, k and v), each of these sections is cut on its own. A section that
/// `parts` does not divide is filled up with zeros at its end (a vocabulary).
///
/// Key and value heads that are fewer than tensor-parallel ranks have a part each, and neighbours
/// have copies of it. Each copy is read by other query heads, so that its gradient is a part of
/// the whole one: they are summed over the copies.
struct TensorSplit {
  int axis = -1;                       ///< -1: every rank has the whole.
  int parts = 1;                       ///< Degree of the parallelism that cuts it.
  Shape whole;                         ///< Shape of the uncut parameter; unused without a cut.
  std::vector<std::int64_t> sections;  ///< Sizes along `axis` in the whole; they add up to it.
  SplitRanks over = SplitRanks::tensor;
  int copies = 1;  ///< Neighbouring ranks with the same part.
  /// Experts alone: each part along `axis`, which is the first, is cut once more along this axis,
  /// into so many slices, which are parts of their own and follow each other. REQUIRES: both
  /// numbers divide their axes.
  int slice_axis = -1;
  int slices = 1;

  [[nodiscard]] bool is_sliced() const { return slices > 1; }
};

struct ParameterSpec {
  std::string name;  ///< Fully qualified, e.g. "blocks.3.attention.wq".
  Shape shape;       ///< On one rank; all parts have the same.
  Init init;
  TensorSplit split = {};
  /// Tensor-parallel ranks see different tokens here (sequence parallelism) or different heads, so
  /// that each has only a part of the gradient although all have the whole parameter: it is summed
  /// over them.
  bool sum_over_tp = false;
  /// The weights of experts, one after the other along the first dimension: where they are cut,
  /// other ranks keep copies of them than of what is around them (WeightKind::expert).
  bool expert = false;
  /// Model chunk of its pipeline rank, and whether another stage has a copy of it (a tied weight).
  int chunk = 0;
  bool tied = false;
  /// Rows, on one rank, of the matrices [out, in] of hidden layers that lie one after the other in
  /// it (q, k and v; experts), each as wide as its last dimension: Muon orthogonalizes each apart.
  /// Empty: none (tables of embeddings, the head, norms, biases).
  std::vector<std::int64_t> matrix_rows = {};
  /// Its products stay in full precision, whatever the model's LowPrecision.
  bool is_never_quantized = false;
  /// Whether products read it in this precision; null: in full.
  const LowPrecision* low = nullptr;

  [[nodiscard]] bool has_matrices() const { return !matrix_rows.empty(); }
  [[nodiscard]] bool is_split() const { return split.axis >= 0; }
  [[nodiscard]] bool is_split_over(SplitRanks ranks) const {
    return is_split() && split.over == ranks;
  }
  /// Whether neighbouring ranks have copies of each part.
  [[nodiscard]] bool is_copied() const { return split.copies > 1; }
  [[nodiscard]] const Shape& whole_shape() const { return is_split() ? split.whole : shape; }
};

/// Which parts a rank has: its place among the ranks of either kind.
struct PartIndex {
  int tensor = 0;
  int expert = 0;
  [[nodiscard]] int of(const ParameterSpec& spec) const {
    return spec.split.over == SplitRanks::expert ? expert : tensor / spec.split.copies;
  }
};

/// Consecutive parameters [first, first + count) that are gathered, reduced and freed together:
/// FSDP's unit, typically one transformer block.
struct ParameterUnit {
  std::string name;
  int first = 0;
  int count = 0;
};

/// The model's view of its parameters during a step; `index` is the position in the table.
class Parameters {
 public:
  virtual ~Parameters() = default;
  /// The weight in the arithmetic's dtype. Valid while its unit is in use.
  [[nodiscard]] virtual Tensor weight(int index) = 0;
  /// The tensor to which backward ADDS the gradient of this microbatch.
  [[nodiscard]] virtual Tensor gradient(int index) = 0;
  /// Called by backward exactly once per parameter and microbatch, after the last addition to it.
  virtual void gradient_ready(int index) = 0;
  /// Whether the last two have no effect for now, as weight() never has.
  [[nodiscard]] virtual bool is_settled(int /*index*/) const { return false; }
  /// That of the parameter among the rank's.
  [[nodiscard]] virtual int number_here(int index) const { return index; }
};

/// Consecutive elements of a part that are consecutive in the whole parameter, too.
struct WholeRun {
  std::int64_t whole_first;  ///< In the whole parameter.
  std::int64_t at;           ///< In the range that was asked for.
  std::int64_t count;
};
/// Visits the places of elements [first, first + count) of part `part` in the whole parameter, in
/// order. Padding is skipped.
void for_each_whole_run(const ParameterSpec& spec, int part, std::int64_t first, std::int64_t count,
                        const std::function<void(const WholeRun&)>& visit);

/// The elements of part `part` that only fill it up, ascending; none where the parts divide.
[[nodiscard]] std::vector<ElementRange> filling(const ParameterSpec& spec, int part);
/// How many of elements [first, first + count) of part `part` those are.
[[nodiscard]] std::int64_t num_filling(const ParameterSpec& spec, int part, std::int64_t first,
                                       std::int64_t count);

/// Fills `values` (elements [first, first + values.numel()) of part `part`) as `spec.init` says;
/// what only fills up becomes 0. REQUIRES: values.has_data().
void initialize(const ParameterSpec& spec, int part, std::uint64_t seed, std::int64_t first,
                const Tensor& values);

}  // namespace shardsim

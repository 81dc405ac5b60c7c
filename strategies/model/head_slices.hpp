#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "strategies/model/pass.hpp"

// Which rows of a parameter, or columns of an activation, are those of a rank's heads, where ranks
// that share a sample's positions have exchanged them for heads.
namespace shardsim {

/// Neighbouring rows that are cut into parts. Neighbours have copies of parts
/// that are fewer than ranks.
struct HeadSection {
  std::int64_t count = 0;
  int parts = 1;
};

/// Consecutive rows: `count` from `first` on in the whole, from `at` on among the rank's.
struct HeadRun {
  std::int64_t first = 0;
  std::int64_t at = 0;
  std::int64_t count = 0;
};

class HeadSlices {
 public:
  /// REQUIRES: the parts of a section divide its rows, and `ranks`.
  HeadSlices(std::vector<HeadSection> sections, int rank, int ranks)
      : sections_(std::move(sections)), rank_(rank), ranks_(ranks) {}

  [[nodiscard]] std::int64_t whole() const;
  /// Rows of one rank.
  [[nodiscard]] std::int64_t count() const;
  /// Those of a rank, one of each section.
  [[nodiscard]] std::vector<HeadRun> runs(int rank) const;

  /// The rank's rows of a parameter: the parameter itself, a view of it, or a copy.
  [[nodiscard]] Tensor of(Runtime& runtime, const Tensor& whole) const;
  /// A layer adds the gradient of these rows to this: likewise, or zeros.
  [[nodiscard]] Tensor gradient_of(Runtime& runtime, const Tensor& whole) const;
  /// Adds such zeros, in which there is a sum now, to the whole; a view has nothing to add.
  void add(Runtime& runtime, const Tensor& part, const Tensor& whole) const;

 private:
  [[nodiscard]] bool is_copied() const { return ranks_ > 1 && sections_.size() > 1; }
  [[nodiscard]] Shape shape_of(const Tensor& whole) const;

  std::vector<HeadSection> sections_;
  int rank_;
  int ranks_;
};

/// A parameter and what its gradient is added to, as far as they are of this rank's heads.
class HeadParameter {
 public:
  /// Parameter k of the pass. `rows` must outlive it.
  HeadParameter(const Pass& pass, int k, const HeadSlices& rows);

  [[nodiscard]] const Tensor& weight() const { return weight_; }
  [[nodiscard]] const Tensor& gradient() const { return gradient_; }
  /// Reports the gradient; both are gone then.
  void finish();

 private:
  const Pass& pass_;
  int k_;
  const HeadSlices& rows_;
  Tensor weight_;
  Tensor sum_;
  Tensor gradient_;
};

}  // namespace shardsim

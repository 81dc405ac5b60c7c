#pragma once

#include <cstddef>
#include <limits>
#include <map>
#include <vector>

#include "strategies/model/close_calls.hpp"

namespace shardsim {

/// The close calls in the parts of a batch. Other rounding errors might decide some of them the
/// other way.
class OpenCalls {
 public:
  static constexpr int kAll = std::numeric_limits<int>::max();

  /// An input of ReLU; or two places of a token's ranking of experts, only the first of which is
  /// used.
  struct Place {
    std::size_t part;
    int module;
    std::size_t number;
    std::size_t first = 0;
    std::size_t second = 0;  ///< 0: an input of ReLU.
    double distance = 0.0;   ///< From the other decision, in largest drawn errors.

    [[nodiscard]] bool is_of_router() const { return second != 0; }
  };

  void clear() { parts_.clear(); }
  [[nodiscard]] bool empty() const { return parts_.empty(); }
  /// Adds the calls of the next part, whose decisions are kept.
  void add(const CloseCalls& calls);
  /// The same calls with drawn errors.
  void add_drawn(std::size_t part, const CloseCalls& calls);
  /// The decisions of a part. Stay valid until clear().
  [[nodiscard]] const CloseCalls::Modules& decisions(std::size_t part) const {
    return parts_[part].modules;
  }
  /// Up to which module decisions of the part hold. A token in another expert changes all that
  /// follows, so numbers decide there.
  [[nodiscard]] int last(std::size_t part) const { return parts_[part].last; }
  /// The same with this call flipped alone. A side of ReLU hardly moves anything.
  [[nodiscard]] static int last_if(const Place& place) {
    return place.is_of_router() ? place.module : kAll;
  }
  /// The other side, or the two experts exchanged. Twice is not at all.
  void flip(const Place& place);
  /// Flips these calls, except those behind a token's other expert in the same part: with other
  /// inputs, they may not be close any more.
  void take(const std::vector<Place>& places);
  /// Calls that lie nearer to the other decision than errors may move them: 4 times the largest
  /// drawn error of an input, or of the difference of two logits. The nearest first.
  [[nodiscard]] std::vector<Place> open() const;

 private:
  struct Errors {
    std::vector<double> of_inputs;
    std::vector<std::vector<double>> of_gaps;  // By token: of each pair of places.
  };
  struct Part {
    CloseCalls::Modules modules;
    std::map<int, Errors> errors;
    int last = kAll;
  };

  std::vector<Part> parts_;
};

/// Selects the `changes` that explain `difference` best by least squares; each counts whole or not
/// at all. Takes the best one first, until none helps. Returns indices in ascending order. All
/// vectors have equal length.
[[nodiscard]] std::vector<std::size_t> explain(std::vector<double> difference,
                                               const std::vector<std::vector<double>>& changes);

}  // namespace shardsim

#pragma once

#include <cstddef>
#include <vector>

#include "strategies/model/close_calls.hpp"

namespace shardsim {

/// The close calls in the parts of a batch. Other rounding errors might decide some of them the
/// other way.
class OpenCalls {
 public:
  /// An input of ReLU; or two places of a token's ranking of experts, the first of which is used.
  struct Place {
    std::size_t part;
    std::size_t number;
    std::size_t first = 0;
    std::size_t second = 0;  ///< 0: an input of ReLU.
  };

  void clear() { parts_.clear(); }
  [[nodiscard]] bool empty() const { return parts_.empty(); }
  /// Adds the calls of the next part, whose decisions are kept.
  void add(const CloseCalls& calls);
  /// The same calls with drawn errors.
  void add_drawn(std::size_t part, const CloseCalls& calls);
  /// The decisions of a part. They stay valid until clear().
  [[nodiscard]] const CloseCalls::Decided& decisions(std::size_t part) const {
    return parts_[part].decided;
  }
  /// Takes the other side, or exchanges the two experts. A second flip undoes the first.
  void flip(const Place& place);
  /// The places that errors might move to the other decision, part by part. Their distance is at
  /// most 4 times the largest drawn error of an input, or of the difference of two logits.
  [[nodiscard]] std::vector<Place> open() const;

 private:
  struct Part {
    CloseCalls::Numbers numbers;
    CloseCalls::Decided decided;
    std::vector<double> errors;                       // One per input.
    std::vector<std::vector<double>> errors_of_gaps;  // By token, for each pair of places.
  };
  template <class Visit>
  void for_each_pair(const Part& part, std::size_t token, const Visit& visit) const;

  std::vector<Part> parts_;
};

}  // namespace shardsim

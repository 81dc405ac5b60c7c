#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "sim/kernel/random.hpp"

#include "strategies/model/quantized_layout.hpp"
#include "strategies/model/sequence_part.hpp"

namespace shardsim {

/// The places of a gradient's elements in the whole model. Rounding by chance draws for each by its
/// place. So no layout changes what is drawn.
struct ElementPlaces {
  std::uint64_t seed = 0;
  int layer = -1;  ///< Number of the weight in the whole model.
  std::int64_t first_column = 0;
  // Rows are tokens: the first one has this number among the rank's. A sample has seq_len
  // positions, and the rank has `part` of them.
  std::int64_t first_sample = 0;
  std::int64_t first_token = 0;
  std::int64_t seq_len = 1;
  SequencePart part = {};
  /// Rows of experts are known by their run and their place in it. Each run has a number.
  std::span<const std::uint64_t> runs = {};
};

/// The draws of one run of a copy.
class ElementChance {
 public:
  /// `first`: the run's first row among all.
  ElementChance(const ElementPlaces& places, CopyDirection direction, std::size_t run,
                std::int64_t first);

  /// Uniform in [0, 1), of an element of the run.
  [[nodiscard]] double uniform(std::int64_t row, std::int64_t column) const;

 private:
  ElementPlaces places_;
  std::int64_t first_;
  RandomStream stream_;
};

}  // namespace shardsim

#include "sim/app/coverage.hpp"

#include <cstddef>

#include <fmt/format.h>

namespace shardsim {

void Coverage::count(std::int64_t step, const StatePiece& piece) {
  const std::string kind(kind_name(piece));
  std::vector<int>& holders = holders_[{step, kind, piece.parameter}];
  holders.resize(expected_.values(step, kind, piece.parameter).size());
  const auto first = static_cast<std::size_t>(piece.first);
  for (std::size_t i = 0; i < static_cast<std::size_t>(piece.values.numel()); ++i) {
    ++holders.at(first + i);
  }
}

std::optional<std::string> Coverage::find_gap() const {
  for (std::int64_t step = 0; step < expected_.num_steps(); ++step) {
    for (const auto& [kind, tensors] : expected_.step(step).kinds) {
      // Gradients that may overflow are not compared, nor counted.
      const bool is_compared =
          kind != "gradient" || expected_.overflow(step) == Expectations::Overflow::no;
      if (!is_compared) continue;
      if (std::optional<std::string> gap = find_gap(step, kind, tensors)) return gap;
    }
  }
  return std::nullopt;
}

std::optional<std::string> Coverage::find_gap(std::int64_t step, const std::string& kind,
                                              const ReferenceTensors& tensors) const {
  std::optional<int> first;  // Of the first element; the others must have as many.
  for (std::size_t parameter = 0; parameter < tensors.size(); ++parameter) {
    const auto counted = holders_.find({step, kind, static_cast<int>(parameter)});
    for (std::size_t i = 0; i < tensors[parameter].size(); ++i) {
      const int here = counted == holders_.end() ? 0 : counted->second[i];
      if (!first) first = here;
      if (here == *first && here > 0) continue;
      return fmt::format(
          "step {}: element {} of the {} of {} is held by {} ranks, the first "
          "element of the model by {}: shards do not cover, or overlap",
          step, i, kind, model_.parameters()[parameter].name, here, *first);
    }
  }
  return std::nullopt;
}

}  // namespace shardsim

#include "sim/verify/coverage.hpp"

#include <fmt/format.h>

namespace shardsim {

void Coverage::count(std::int64_t step, const StatePiece& piece, std::size_t numel) {
  std::vector<int>& holders = holders_[{step, std::string(kind_name(piece)), piece.parameter}];
  holders.resize(numel);
  const auto first = static_cast<std::size_t>(piece.first);
  for (std::size_t i = 0; i < static_cast<std::size_t>(piece.values.numel()); ++i) {
    ++holders.at(first + i);
  }
}

std::optional<std::string> Coverage::find_gap(const Expectations& expected,
                                              const Model& model) const {
  for (std::int64_t step = 0; step < expected.num_steps(); ++step) {
    for (const auto& [kind, tensors] : expected.step(step).kinds) {
      // Gradients that may overflow are not compared, nor counted.
      const bool is_compared =
          kind != "gradient" || expected.overflow(step) == Expectations::Overflow::no;
      if (!is_compared) continue;
      if (std::optional<std::string> gap = find_gap(step, kind, tensors, model)) return gap;
    }
  }
  return std::nullopt;
}

std::optional<std::string> Coverage::find_gap(std::int64_t step, const std::string& kind,
                                              const ReferenceTensors& tensors,
                                              const Model& model) const {
  // Holders of the first element of dense weights and of experts; all others must have as many. If
  // nothing is sharded, fewer ranks hold an expert than a dense weight.
  std::optional<int> first_of_kind[2];
  for (std::size_t parameter = 0; parameter < tensors.size(); ++parameter) {
    std::optional<int>& first = first_of_kind[model.parameters()[parameter].expert ? 1 : 0];
    const auto counted = holders_.find({step, kind, static_cast<int>(parameter)});
    for (std::size_t i = 0; i < tensors[parameter].size(); ++i) {
      const int here = counted == holders_.end() ? 0 : counted->second[i];
      if (!first) first = here;
      if (here == *first && here > 0) continue;
      return fmt::format(
          "step {}: element {} of the {} of {} is held by {} ranks, the first "
          "element of its kind by {}: shards do not cover, or overlap",
          step, i, kind, model.parameters()[parameter].name, here, *first);
    }
  }
  return std::nullopt;
}

}  // namespace shardsim

#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/search/found_layouts.hpp"
#include "sim/search/layout_space.hpp"

// The rank of a given layout among the candidates of a search.
namespace shardsim {

/// Its rank is num_ahead + 1, or up to num_undecided further down.
struct GivenOutcome {
  Candidate candidate;
  std::optional<SimulatedPoint> point;
  std::string failure;            ///< Why it has no point.
  std::string why_not_searched;   ///< Empty: it is one of the candidates.
  std::size_t num_ahead = 0;      ///< Simulated candidates that fit and rank before it.
  std::size_t num_undecided = 0;  ///< Candidates that may, by their bounds.
};

/// Without a given layout, it does nothing.
class GivenRank {
 public:
  /// All outlive it.
  GivenRank(const SearchBase& base, const LayoutSpace& space, const FoundLayouts& found)
      : base_(base), space_(space), found_(found) {}

  /// `is_over` as in simulate_layout(). Comes before the other calls.
  void simulate(const std::function<bool()>& is_over);
  /// Its point, if it is a candidate that fits: the search needs not simulate it. Else null.
  [[nodiscard]] const SimulatedPoint* found() const;
  /// REQUIRES: found() is not null.
  [[nodiscard]] const LayoutPlace& place() const { return place_; }
  /// For all candidates that are not simulated in the end and may fit, with their last bound.
  void note_decided(const Bound& bound, std::size_t num_candidates);
  /// `num_others`: the candidates that are not simulated and may fit.
  [[nodiscard]] std::optional<GivenOutcome> ranked(const std::vector<SimulatedPoint>& simulated,
                                                   std::size_t num_others) const;

 private:
  const SearchBase& base_;
  const LayoutSpace& space_;
  const FoundLayouts& found_;
  std::optional<GivenOutcome> given_;
  LayoutPlace place_;           // If it is one of the candidates.
  std::size_t num_behind_ = 0;  // Others that rank behind it, whatever their results are.
};

}  // namespace shardsim

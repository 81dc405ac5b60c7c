#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "sim/search/candidate_bound.hpp"
#include "sim/search/simulate_layout.hpp"

// The finds of a search so far, and which bounds rule a candidate out because of it.
namespace shardsim {

/// How much of the best the candidates that are left could save at most, as a share of their bound:
/// never below 0.
[[nodiscard]] double gap_of(double best, double lower_bound);

/// Whether a layout is proven to rank first. One that leaves less than the margin is not, whatever
/// the gap: slower ones that leave more rank before it.
[[nodiscard]] bool is_proven(const SimulatedPoint& best, const std::optional<double>& gap);

/// Better first: points that leave the margin, then by the objective, then by the other of time and
/// memory, then by index.
[[nodiscard]] bool ranks_before(const SimulatedPoint& a, const SimulatedPoint& b,
                                Objective objective);

/// The points that fit and that no other beats in both time and memory, up to `within` times the
/// step of the fastest; by time.
[[nodiscard]] std::vector<SimulatedPoint> pareto_front(const std::vector<SimulatedPoint>& points,
                                                       double within);

/// The best of each family, in the order of `points`, which is that of ranks_before().
[[nodiscard]] std::vector<SimulatedPoint> best_of_families(
    const std::vector<SimulatedPoint>& points);

/// A bound's verdict on a candidate.
enum class BoundVerdict : std::uint8_t { open, slower, too_large };

class FoundLayouts {
 public:
  /// Both outlive it. `experiment`: that of the base.
  FoundLayouts(const Experiment& experiment, const SearchRequest& request)
      : experiment_(experiment), request_(request) {}

  void keep(const SimulatedPoint& point);

  /// The layout that ranks first; null if none fits.
  [[nodiscard]] const SimulatedPoint* best() const { return best_.empty() ? nullptr : &best_[0]; }
  /// The simulated layout that needs least memory, while none fits; null before the first.
  [[nodiscard]] const SimulatedPoint* nearest_miss() const { return miss_ ? &*miss_ : nullptr; }
  [[nodiscard]] Objective objective() const { return request_.objective; }
  /// On the objective: seconds or bytes.
  [[nodiscard]] double objective_of(const Bound& bound) const;
  [[nodiscard]] double objective_of(const SimulatedPoint& point) const;

  /// Whether the candidate is worse than its family's best, or its family than the K-th best one,
  /// whatever its simulated result is.
  [[nodiscard]] bool is_below_best(const Bound& bound, const LayoutFamily& family) const;
  /// Whether it ranks behind the best in any case, because it leaves less than the margin.
  [[nodiscard]] bool is_behind_by_margin(const Bound& bound) const;
  [[nodiscard]] bool is_too_large(const Bound& bound) const;
  [[nodiscard]] BoundVerdict judge(const Bound& bound, const LayoutFamily& family) const;
  /// Whether the candidate ranks behind this point, whatever its simulated result is.
  [[nodiscard]] bool is_behind(const Bound& bound, const SimulatedPoint& point) const;
  /// If bounds were results: whether `a` ranks before `b`, or before the best. Without a best all
  /// would lead.
  [[nodiscard]] bool leads(const Bound& a, const Bound& b) const;
  [[nodiscard]] bool would_lead(const Bound& bound) const;

 private:
  // Whether it is tight, and the objective: tight ones come last. Less is better.
  using Rank = std::pair<bool, double>;
  [[nodiscard]] Rank rank_of(const Bound& bound) const;
  [[nodiscard]] Rank rank_of(const SimulatedPoint& point) const;
  [[nodiscard]] bool is_off_front(const Bound& bound) const;
  [[nodiscard]] bool is_tight(const Bound& bound) const;

  const Experiment& experiment_;
  const SearchRequest& request_;
  std::vector<SimulatedPoint> best_;  // One of each family, at most request.top, best first.
  std::vector<SimulatedPoint> front_;
  std::optional<SimulatedPoint> miss_;
};

}  // namespace shardsim

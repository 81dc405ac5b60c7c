#include "sim/verify/nearest_sides.hpp"

#include <numeric>

namespace shardsim {

namespace {

double product(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

}  // namespace

// A change that was taken may be removed after others were taken.
std::vector<std::size_t> explain(std::vector<double> difference,
                                 const std::vector<std::vector<double>>& changes) {
  std::vector<bool> taken(changes.size(), false);
  std::vector<double> squares;
  for (const std::vector<double>& change : changes) squares.push_back(product(change, change));
  // Each step makes the rest smaller; the limit guards against rounding.
  for (std::size_t step = 0; step < 2 * changes.size(); ++step) {
    std::size_t best = changes.size();
    double most = 0.0;
    for (std::size_t i = 0; i < changes.size(); ++i) {
      const double sign = taken[i] ? -1.0 : 1.0;
      const double gain = 2.0 * sign * product(difference, changes[i]) - squares[i];
      if (gain <= most) continue;
      most = gain;
      best = i;
    }
    if (best == changes.size()) break;
    const double sign = taken[best] ? -1.0 : 1.0;
    for (std::size_t j = 0; j < difference.size(); ++j) {
      difference[j] -= sign * changes[best][j];
    }
    taken[best] = !taken[best];
  }
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < taken.size(); ++i) {
    if (taken[i]) found.push_back(i);
  }
  return found;
}

}  // namespace shardsim

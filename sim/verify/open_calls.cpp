#include "sim/verify/open_calls.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace shardsim {

namespace {

// The largest of the draws is hardly ever less than the standard deviation of a rounding error.
// Errors of rounding to nearest are smaller than drawn ones, so this is at least five deviations.
constexpr double kMostOfDraws = 4.0;

// For a token: a place that is used and one that is not, with a number of the pair. An exchange of
// two used experts changes nothing.
template <class Visit>
void for_each_pair(const CloseCalls::Calls& calls, std::size_t token, const Visit& visit) {
  const std::size_t used = calls.used[token];
  std::size_t number = 0;
  for (std::size_t first = 0; first < used; ++first) {
    for (std::size_t second = used; second < calls.ranking[token].size(); ++second) {
      visit(number++, first, second);
    }
  }
}

// 0 at a tie.
double distance_of(double number, double error) {
  return number == 0.0 ? 0.0 : std::fabs(number) / error;
}

// How much the first expert's logit is above the second's, by the numbers of `of`.
double gap(const CloseCalls::Calls& calls, std::size_t token, std::size_t first, std::size_t second,
           const CloseCalls::Calls& of) {
  const std::vector<int>& ranking = calls.ranking[token];
  return of.logits[token][static_cast<std::size_t>(ranking[first])] -
         of.logits[token][static_cast<std::size_t>(ranking[second])];
}

double product(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

}  // namespace

void OpenCalls::add(const CloseCalls& calls) {
  Part part{calls.modules(), {}, kAll};
  for (const auto& [module, mine] : part.modules) {
    Errors& errors = part.errors[module];
    errors.of_inputs.assign(mine.inputs.size(), 0.0);
    for (std::size_t i = 0; i < mine.logits.size(); ++i) {
      errors.of_gaps.emplace_back(mine.used[i] * mine.logits[i].size(), 0.0);
    }
  }
  parts_.push_back(std::move(part));
}

void OpenCalls::add_drawn(std::size_t part, const CloseCalls& calls) {
  for (auto& of_module : parts_[part].errors) {
    const int module = of_module.first;
    Errors& errors = of_module.second;
    const CloseCalls::Calls& mine = parts_[part].modules.at(module);
    const CloseCalls::Calls& drawn = calls.modules().at(module);
    for (std::size_t i = 0; i < errors.of_inputs.size(); ++i) {
      const double error = std::fabs(drawn.inputs[i] - mine.inputs[i]);
      errors.of_inputs[i] = std::max(errors.of_inputs[i], error);
    }
    for (std::size_t i = 0; i < errors.of_gaps.size(); ++i) {
      for_each_pair(mine, i, [&](std::size_t number, std::size_t first, std::size_t second) {
        const double error = gap(mine, i, first, second, drawn) - gap(mine, i, first, second, mine);
        errors.of_gaps[i][number] = std::max(errors.of_gaps[i][number], std::fabs(error));
      });
    }
  }
}

void OpenCalls::flip(const Place& place) {
  Part& part = parts_[place.part];
  CloseCalls::Calls& calls = part.modules.at(place.module);
  if (!place.is_of_router()) {
    calls.above[place.number] = !calls.above[place.number];
    return;
  }
  std::vector<int>& ranking = calls.ranking[place.number];
  std::swap(ranking[place.first], ranking[place.second]);
}

void OpenCalls::take(const std::vector<Place>& places) {
  for (const Place& place : places) {
    Part& part = parts_[place.part];
    part.last = std::min(part.last, last_if(place));
  }
  for (const Place& place : places) {
    if (place.module <= parts_[place.part].last) flip(place);
  }
}

std::vector<OpenCalls::Place> OpenCalls::open() const {
  std::vector<Place> places;
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    for (const auto& of_module : parts_[part].errors) {
      const int module = of_module.first;
      const Errors& errors = of_module.second;
      const CloseCalls::Calls& mine = parts_[part].modules.at(module);
      const auto add = [&places](const Place& place) {
        if (place.distance <= kMostOfDraws) places.push_back(place);
      };
      for (std::size_t i = 0; i < errors.of_inputs.size(); ++i) {
        add({part, module, i, 0, 0, distance_of(mine.inputs[i], errors.of_inputs[i])});
      }
      for (std::size_t i = 0; i < errors.of_gaps.size(); ++i) {
        for_each_pair(mine, i, [&](std::size_t number, std::size_t first, std::size_t second) {
          const double between = gap(mine, i, first, second, mine);
          add({part, module, i, first, second, distance_of(between, errors.of_gaps[i][number])});
        });
      }
    }
  }
  std::ranges::stable_sort(places, {}, &Place::distance);
  return places;
}

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

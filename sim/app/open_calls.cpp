#include "sim/app/open_calls.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace shardsim {

namespace {

// The largest of eight draws is hardly ever less than the standard deviation of a rounding error.
// Errors of rounding to nearest are smaller than drawn ones, so this is at least five deviations.
constexpr double kMostOfDraws = 4.0;

double gap(const std::vector<double>& logits, int first, int second) {
  return logits[static_cast<std::size_t>(first)] - logits[static_cast<std::size_t>(second)];
}

}  // namespace

// A used place, and one behind it: capacity goes by places, so their order counts, too.
template <class Visit>
void OpenCalls::for_each_pair(const Part& part, std::size_t token, const Visit& visit) const {
  const std::vector<int>& ranking = part.decided.experts[token];
  std::size_t number = 0;
  for (std::size_t first = 0; first < std::min(part.numbers.experts_per_token, ranking.size());
       ++first) {
    for (std::size_t second = first + 1; second < ranking.size(); ++second) {
      visit(number++, first, second);
    }
  }
}

void OpenCalls::add(const CloseCalls& calls) {
  Part part{calls.numbers(), calls.decisions(), {}, {}};
  part.errors.assign(part.numbers.inputs.size(), 0.0);
  for (const std::vector<double>& logits : part.numbers.logits) {
    part.errors_of_gaps.emplace_back(part.numbers.experts_per_token * logits.size(), 0.0);
  }
  parts_.push_back(std::move(part));
}

void OpenCalls::add_drawn(std::size_t part, const CloseCalls& calls) {
  Part& mine = parts_[part];
  const CloseCalls::Numbers& drawn = calls.numbers();
  for (std::size_t i = 0; i < mine.errors.size(); ++i) {
    mine.errors[i] = std::max(mine.errors[i], std::fabs(drawn.inputs[i] - mine.numbers.inputs[i]));
  }
  for (std::size_t i = 0; i < mine.errors_of_gaps.size(); ++i) {
    const std::vector<int>& ranking = mine.decided.experts[i];
    for_each_pair(mine, i, [&](std::size_t number, std::size_t first, std::size_t second) {
      const double error = gap(drawn.logits[i], ranking[first], ranking[second]) -
                           gap(mine.numbers.logits[i], ranking[first], ranking[second]);
      double& most = mine.errors_of_gaps[i][number];
      most = std::max(most, std::fabs(error));
    });
  }
}

void OpenCalls::flip(const Place& place) {
  CloseCalls::Decided& decided = parts_[place.part].decided;
  if (place.second == 0) {
    decided.above[place.number] = !decided.above[place.number];
  } else {
    std::vector<int>& ranking = decided.experts[place.number];
    std::swap(ranking[place.first], ranking[place.second]);
  }
}

std::vector<OpenCalls::Place> OpenCalls::open() const {
  std::vector<Place> places;
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    const Part& mine = parts_[part];
    for (std::size_t i = 0; i < mine.errors.size(); ++i) {
      if (std::fabs(mine.numbers.inputs[i]) > kMostOfDraws * mine.errors[i]) continue;
      places.push_back({part, i});
    }
    for (std::size_t i = 0; i < mine.errors_of_gaps.size(); ++i) {
      const std::vector<int>& ranking = mine.decided.experts[i];
      for_each_pair(mine, i, [&](std::size_t number, std::size_t first, std::size_t second) {
        const double between = gap(mine.numbers.logits[i], ranking[first], ranking[second]);
        if (std::fabs(between) > kMostOfDraws * mine.errors_of_gaps[i][number]) return;
        places.push_back({part, i, first, second});
      });
    }
  }
  return places;
}

}  // namespace shardsim

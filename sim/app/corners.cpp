#include "sim/app/corners.hpp"

#include <algorithm>
#include <cmath>

namespace shardsim {

namespace {

// The largest of eight draws is hardly ever less than the standard deviation of a rounding error.
// Errors of rounding to nearest are smaller than drawn ones, so this is at least five deviations.
constexpr double kMostOfDraws = 4.0;

}  // namespace

bool Corners::any() const {
  return std::any_of(parts_.begin(), parts_.end(),
                     [](const Part& part) { return !part.inputs.empty(); });
}

void Corners::add(const std::vector<double>& inputs) {
  Part part{inputs, std::vector<double>(inputs.size(), 0.0), {}};
  for (const double input : inputs) part.above.push_back(input > 0.0);
  parts_.push_back(std::move(part));
}

void Corners::add_drawn(std::size_t part, const std::vector<double>& inputs) {
  Part& mine = parts_[part];
  for (std::size_t i = 0; i < mine.inputs.size(); ++i) {
    mine.errors[i] = std::max(mine.errors[i], std::fabs(inputs[i] - mine.inputs[i]));
  }
}

void Corners::flip(const Place& place) {
  std::vector<bool>& above = parts_[place.part].above;
  above[place.input] = !above[place.input];
}

std::vector<Corners::Place> Corners::open() const {
  std::vector<Place> places;
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    const Part& mine = parts_[part];
    for (std::size_t i = 0; i < mine.inputs.size(); ++i) {
      if (std::fabs(mine.inputs[i]) <= kMostOfDraws * mine.errors[i]) places.push_back({part, i});
    }
  }
  return places;
}

}  // namespace shardsim

#include "sim/harness/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include <fmt/format.h>

namespace shardsim {

DiagnosisSide side_of(const ShownState::Piece& piece, std::string action) {
  return {.ranks = {piece.rank}, .action = std::move(action), .site = piece.site};
}

Diagnosis begin_diagnosis(const char* code, const ShownTensor& tensor, const std::string& what) {
  Diagnosis diagnosis;
  diagnosis.code = code;
  diagnosis.summary = tensor.describe() + " " + what;
  std::set<int> ranks;
  for (const ShownState::Piece* piece : tensor.pieces) ranks.insert(piece->rank);
  diagnosis.members.assign(ranks.begin(), ranks.end());
  return diagnosis;
}

bool Comparison::close(double a, double b) const {
  return a == b || std::abs(a - b) <= bound_;  // NaN is close to nothing.
}

bool Comparison::right(const ShownState::Piece& piece) const {
  return first_wrong(piece) == static_cast<std::int64_t>(piece.values.size());
}

bool Comparison::all_right() const {
  return std::all_of(tensor_.pieces.begin(), tensor_.pieces.end(),
                     [&](const ShownState::Piece* piece) { return right(*piece); });
}

std::int64_t Comparison::first_wrong(const ShownState::Piece& piece) const {
  std::size_t i = 0;
  while (i < piece.values.size() &&
         close(piece.values[i], wanted_[static_cast<std::size_t>(piece.first) + i])) {
    ++i;
  }
  return static_cast<std::int64_t>(i);
}

DiagnosisSide Comparison::wrong_side() const {
  DiagnosisSide side;
  for (const ShownState::Piece* piece : tensor_.pieces) {
    if (right(*piece)) continue;
    if (side.ranks.empty()) {
      const std::int64_t at = first_wrong(*piece);
      side = side_of(*piece, fmt::format("element {}: {:.6g} instead of {:.6g}", piece->first + at,
                                         piece->values[static_cast<std::size_t>(at)],
                                         wanted_[static_cast<std::size_t>(piece->first + at)]));
    } else if (side.ranks.back() != piece->rank) {
      side.ranks.push_back(piece->rank);
    }
  }
  return side;
}

double Comparison::largest_excess() const {
  double largest = 0.0;
  for (const ShownState::Piece* piece : tensor_.pieces) {
    for (std::size_t i = 0; i < piece->values.size(); ++i) {
      const double wanted = wanted_[static_cast<std::size_t>(piece->first) + i];
      largest = std::max(largest, std::abs(piece->values[i] - wanted));
    }
  }
  return largest / bound_;
}

bool Comparison::are_parts_of_sum() const {
  std::vector<double> sum(wanted_.size(), 0.0);
  for (const ShownState::Piece* piece : tensor_.pieces) {
    for (std::size_t i = 0; i < piece->values.size(); ++i) {
      sum[static_cast<std::size_t>(piece->first) + i] += piece->values[i];
    }
  }
  return std::equal(sum.begin(), sum.end(), wanted_.begin(),
                    [&](double a, double b) { return close(a, b); });
}

}  // namespace shardsim

#include "sim/real/state_image.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace shardsim {

namespace {

constexpr std::array<const char*, StateImage::kNumKinds> kKindNames = {"gradient", "parameter",
                                                                       "optimizer state", "loss"};

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

bool same_place(const StateImage::Piece& a, const StateImage::Piece& b) {
  return a.step == b.step && a.kind == b.kind && a.state == b.state && a.parameter == b.parameter &&
         a.first == b.first && a.values.size() == b.values.size();
}

double largest_finite_value(const std::vector<double>& values) {
  double most = 0.0;
  for (const double value : values) {
    if (std::isfinite(value)) most = std::max(most, std::abs(value));
  }
  return most;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (same_bits(a[i], b[i])) continue;
    const double difference = std::abs(a[i] - b[i]);
    most = std::isfinite(difference) ? std::max(most, difference)
                                     : std::numeric_limits<double>::infinity();
  }
  return most;
}

std::string describe(const StateImage::Piece& piece, std::size_t index, double actual,
                     const std::vector<std::string>& names) {
  std::string text = fmt::format("step {}, {}", piece.step, kKindNames.at(piece.kind));
  if (!piece.state.empty()) text += " " + piece.state;
  if (piece.kind != StateImage::loss) {
    text += fmt::format(" of {}, element {}", names.at(static_cast<std::size_t>(piece.parameter)),
                        piece.first + static_cast<std::int64_t>(index));
  }
  return text + fmt::format(": {} instead of {}", actual, piece.values[index]);
}

// Adds the differences of two pieces of one place.
void compare_pieces(const StateImage::Piece& actual, const StateImage::Piece& expected,
                    double floor, const std::vector<std::string>& names, ImageDifference& found) {
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    if (same_bits(actual.values[i], expected.values[i])) continue;
    ++found.num_different;
    if (found.first.empty()) found.first = describe(expected, i, actual.values[i], names);
  }
  const double difference = largest_difference(actual.values, expected.values);
  if (difference == 0.0) return;
  const double scale = std::max(largest_finite_value(expected.values), floor);
  double& error = found.max_rel_error.at(expected.kind);
  error =
      std::max(error, scale > 0.0 ? difference / scale : std::numeric_limits<double>::infinity());
}

}  // namespace

void StateImage::keep(std::int64_t step, const GradientSync& sync, StateKind kind, Kind kept_as) {
  sync.visit(kind, [&](const StatePiece& shown) {
    Piece piece{step, kept_as, std::string(shown.state), shown.parameter, shown.first, {}};
    piece.of_rank_alone = kind == StateKind::rank_state;
    piece.values.reserve(static_cast<std::size_t>(shown.values.numel()));
    for (std::int64_t i = 0; i < shown.values.numel(); ++i) {
      piece.values.push_back(shown.values.get(i));
    }
    pieces_.push_back(std::move(piece));
  });
}

void StateImage::gradients_ready(std::int64_t step, const GradientSync& sync) {
  keep(step, sync, StateKind::gradient, gradients);
}

void StateImage::step_ends(std::int64_t step, const GradientSync& sync,
                           std::optional<double> loss_of_step) {
  keep(step, sync, StateKind::parameter, parameters);
  keep(step, sync, StateKind::optimizer_state, optimizer_state);
  keep(step, sync, StateKind::rank_state, optimizer_state);
  if (loss_of_step) pieces_.push_back({step, loss, "", 0, 0, {*loss_of_step}});
}

ImageDifference compare_images(const StateImage& actual, const StateImage& expected,
                               const std::vector<std::string>& names) {
  ImageDifference found;
  std::map<std::pair<std::int64_t, int>, double> floors;
  for (const StateImage::Piece& piece : expected.pieces()) {
    found.num_values += static_cast<std::int64_t>(piece.values.size());
    double& floor = floors[{piece.step, piece.kind}];
    floor = std::max(floor, 1e-6 * largest_finite_value(piece.values));
  }
  const bool alike = std::equal(actual.pieces().begin(), actual.pieces().end(),
                                expected.pieces().begin(), expected.pieces().end(), same_place);
  if (!alike) {
    found.num_different = found.num_values;
    found.max_rel_error.fill(std::numeric_limits<double>::infinity());
    found.first = "this rank shows other tensors than in the simulation";
    return found;
  }
  for (std::size_t i = 0; i < expected.pieces().size(); ++i) {
    const StateImage::Piece& piece = expected.pieces()[i];
    compare_pieces(actual.pieces()[i], piece, floors[{piece.step, piece.kind}], names, found);
  }
  return found;
}

}  // namespace shardsim

#include "sim/harness/shown_state.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include "sim/harness/rounding_error.hpp"

namespace shardsim {

namespace {

constexpr const char* kUpdateHint =
    "gradients are right: look at the update, the order of elements, and what was loaded";
// Differences are sought in this order: randomness makes outputs, outputs make gradients, gradients
// make norms and updates.
constexpr std::array<ShownRow, 8> kShownRows = {
    {{Shown::random, "random numbers", "RNG_STREAM",
      "key randomness by what is drawn and its global index: different where ranks hold different "
      "elements, equal where they hold the same"},
     {Shown::tokens, "tokens", "TOKEN_LOST",
      "look at capacity, at the order of rows on their way back, and at the combining weights"},
     {Shown::output, "output", "OUT_DIFF",
      "look at what a rank sees of its neighbours at the edges of its part: offsets, masks"},
     {Shown::activation_gradient, "activation gradient of", "GRAD_DIFF",
      "look at what backward sends or sums between this layer and the loss"},
     {Shown::gradient, "gradient of", "GRAD_DIFF",
      "a contribution is missing, doubled or weighted wrongly"},
     {Shown::norm, "norm", "NORM_DIFF",
      "sum squares over all shards before the root, and count what is replicated once"},
     {Shown::optimizer_state, "optimizer state of", "STATE_DIFF", kUpdateHint},
     {Shown::parameter, "parameter of", "STATE_DIFF", kUpdateHint}}};

}  // namespace

void ShownState::add_share(int rank, std::int64_t samples) {
  const auto mine = std::find_if(shares_.begin(), shares_.end(),
                                 [&](const auto& share) { return share.first == rank; });
  if (mine == shares_.end()) {
    shares_.emplace_back(rank, samples);
  } else {
    mine->second += samples;
  }
}

void ShownState::clear() {
  pieces_.clear();
  shares_.clear();
  groups_.clear();
}

bool ShownState::shares_differ() const {
  return std::any_of(shares_.begin(), shares_.end(),
                     [&](const auto& share) { return share.second != shares_.front().second; });
}

// --- In order ----------------------------------------------------------------------------------

const ShownRow& row_of(Shown what) {
  return *std::find_if(kShownRows.begin(), kShownRows.end(),
                       [what](const ShownRow& row) { return row.what == what; });
}

std::vector<double> ShownTensor::values() const {
  std::vector<double> all(static_cast<std::size_t>(std::max<std::int64_t>(whole(), 0)), 0.0);
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    for (std::size_t i = 0; i < (*piece)->values.size(); ++i) {
      const auto at = static_cast<std::size_t>((*piece)->first) + i;
      if (at < all.size()) all[at] = (*piece)->values[i];
    }
  }
  return all;
}

std::string ShownTensor::describe() const {
  std::string text =
      std::string(row_of(what).words) + " " + name + ", step " + std::to_string(step);
  if (microbatch >= 0) text += ", microbatch " + std::to_string(microbatch);
  return text;
}

ShownTable::ShownTable(const ShownState& shown, const ShownState& order) {
  std::map<std::string, std::size_t> places;
  for (const ShownState::Piece& piece : order.pieces()) places.emplace(piece.name, places.size());
  using Key = std::tuple<int, const ShownRow*, std::size_t, std::string, int>;
  std::map<Key, ShownTensor> sorted;
  for (const ShownState::Piece& piece : shown.pieces()) {
    const auto place = places.find(piece.name);
    const Key key(piece.step, &row_of(piece.what),
                  place == places.end() ? places.size() : place->second, piece.name,
                  piece.microbatch);
    ShownTensor& tensor = sorted[key];
    tensor.what = piece.what;
    tensor.name = piece.name;
    tensor.step = piece.step;
    tensor.microbatch = piece.microbatch;
    tensor.pieces.push_back(&piece);
    double& most = largest_[piece.what];
    most = std::max(most, shardsim::largest(piece.values));
  }
  for (auto& [_, tensor] : sorted) {
    std::stable_sort(tensor.pieces.begin(), tensor.pieces.end(),
                     [](const auto* a, const auto* b) { return a->rank < b->rank; });
    tensors_.push_back(std::move(tensor));
  }
}

const ShownTensor* ShownTable::find(const ShownTensor& like, int step) const {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(), [&](const ShownTensor& other) {
    return other.step == step && other.what == like.what && other.name == like.name &&
           other.microbatch == like.microbatch;
  });
  return found == tensors_.end() ? nullptr : &*found;
}

double ShownTable::largest(Shown what) const {
  const auto found = largest_.find(what);
  return found == largest_.end() ? 0.0 : found->second;
}

}  // namespace shardsim

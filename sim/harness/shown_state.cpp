#include "sim/harness/shown_state.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace shardsim {

namespace {

// Differences are sought in this order: randomness makes outputs, outputs make gradients, gradients
// make norms and updates.
int place_of(Shown what) {
  switch (what) {
    case Shown::random:
      return 0;
    case Shown::tokens:
      return 1;
    case Shown::output:
      return 2;
    case Shown::activation_gradient:
      return 3;
    case Shown::gradient:
      return 4;
    case Shown::norm:
      return 5;
    case Shown::optimizer_state:
      return 6;
    case Shown::parameter:
      return 7;
  }
  return 0;
}

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

const char* name_of(Shown what) {
  switch (what) {
    case Shown::gradient:
      return "gradient";
    case Shown::parameter:
      return "parameter";
    case Shown::optimizer_state:
      return "optimizer state";
    case Shown::activation_gradient:
      return "activation gradient";
    case Shown::output:
      return "output";
    case Shown::norm:
      return "norm";
    case Shown::tokens:
      return "tokens";
    case Shown::random:
      return "random numbers";
  }
  return "";
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
  std::string text = std::string(name_of(what)) + " of " + name;
  if (what == Shown::output || what == Shown::norm || what == Shown::tokens ||
      what == Shown::random) {
    text = std::string(name_of(what)) + " " + name;
  }
  text += ", step " + std::to_string(step);
  if (microbatch >= 0) text += ", microbatch " + std::to_string(microbatch);
  return text;
}

ShownTable::ShownTable(const ShownState& shown, const ShownState& order) {
  std::map<std::string, std::size_t> places;
  for (const ShownState::Piece& piece : order.pieces()) places.emplace(piece.name, places.size());
  using Key = std::tuple<int, int, std::size_t, std::string, int>;
  std::map<Key, ShownTensor> sorted;
  for (const ShownState::Piece& piece : shown.pieces()) {
    const auto place = places.find(piece.name);
    const Key key(piece.step, place_of(piece.what),
                  place == places.end() ? places.size() : place->second, piece.name,
                  piece.microbatch);
    ShownTensor& tensor = sorted[key];
    tensor.what = piece.what;
    tensor.name = piece.name;
    tensor.step = piece.step;
    tensor.microbatch = piece.microbatch;
    tensor.pieces.push_back(&piece);
    for (const double value : piece.values) {
      double& most = largest_[piece.what];
      most = std::max(most, std::abs(value));
    }
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

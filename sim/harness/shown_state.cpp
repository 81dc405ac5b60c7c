#include "sim/harness/shown_state.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "sim/harness/rounding_error.hpp"

namespace shardsim {

namespace {

constexpr const char* kUpdateHint =
    "look at the update, the order of elements, and what was loaded";
// Differences are sought in this order: randomness makes outputs, outputs make gradients, gradients
// make norms and updates.
constexpr std::array<ShownRow, 8> kShownRows = {
    {{Shown::random, "random numbers", "RNG_STREAM",
      "key randomness by what is drawn and its global index: different where ranks hold different "
      "elements, equal where they hold the same"},
     {Shown::tokens, "tokens", "TOKEN_LOST",
      "look at capacity, at the order of rows on their way back, and at the combining weights"},
     {Shown::output, "output", "OUT_DIFF", ""},
     {Shown::activation_gradient, "activation gradient of", "GRAD_DIFF",
      "look at what backward sends or sums between this layer and the loss"},
     {Shown::gradient, "gradient of", "GRAD_DIFF", ""},
     {Shown::norm, "norm", "NORM_DIFF", ""},
     {Shown::optimizer_state, "optimizer state of", "STATE_DIFF", kUpdateHint},
     {Shown::parameter, "parameter of", "STATE_DIFF", kUpdateHint}}};

// Ranks with equal values of all they show, the fewest first.
std::vector<std::vector<const ShownState::Piece*>> parties(const ShownTensor& tensor,
                                                           const Comparison& comparison) {
  std::vector<std::vector<const ShownState::Piece*>> parties;
  for (const ShownState::Piece* piece : tensor.pieces) {
    const auto agrees = [&](const std::vector<const ShownState::Piece*>& party) {
      const ShownState::Piece& other = *party.front();
      if (other.first != piece->first || other.values.size() != piece->values.size()) return false;
      return std::equal(other.values.begin(), other.values.end(), piece->values.begin(),
                        [&](double a, double b) { return comparison.close(a, b); });
    };
    const auto mine = std::ranges::find_if(parties, agrees);
    if (mine == parties.end()) {
      parties.push_back({piece});
    } else {
      mine->push_back(piece);
    }
  }
  // Among equally many, those that are wrong.
  std::ranges::stable_sort(parties, {}, [&](const auto& party) {
    return std::pair(party.size(), comparison.right(*party.front()));
  });
  return parties;
}

}  // namespace

void ShownState::add_share(int rank, std::int64_t samples) {
  const auto mine =
      std::ranges::find_if(shares_, [&](const auto& share) { return share.first == rank; });
  if (mine == shares_.end()) {
    shares_.emplace_back(rank, samples);
  } else {
    mine->second += samples;
  }
}

namespace {

using TensorKey = std::tuple<Shown, std::string, int, int>;

TensorKey key_of(const ShownState::Piece& piece) {
  return {piece.what, piece.name, piece.step, piece.microbatch};
}

std::set<TensorKey> keys_of(const std::vector<ShownState::Piece>& pieces) {
  std::set<TensorKey> keys;
  for (const ShownState::Piece& piece : pieces) keys.insert(key_of(piece));
  return keys;
}

}  // namespace

void ShownState::replace_by(const ShownState& other) {
  const std::set<TensorKey> keys = keys_of(other.pieces());
  // Pieces stay where their tensors were: their order is that of reports.
  std::vector<Piece> mine = std::exchange(pieces_, {});
  std::set<TensorKey> taken;
  const auto take = [&](const TensorKey& key) {
    if (!taken.insert(key).second) return;
    for (const Piece& piece : other.pieces()) {
      if (key_of(piece) == key) pieces_.push_back(piece);
    }
  };
  for (Piece& piece : mine) {
    const TensorKey key = key_of(piece);
    if (keys.contains(key)) {
      take(key);
    } else {
      pieces_.push_back(std::move(piece));
    }
  }
  for (const TensorKey& key : keys) take(key);
  num_replaced_ = keys.size();
}

std::size_t ShownState::num_tensors() const { return keys_of(pieces_).size(); }

void ShownState::clear() {
  pieces_.clear();
  num_replaced_ = 0;
  shares_.clear();
  groups_.clear();
}

// --- In order ----------------------------------------------------------------------------------

const ShownRow& row_of(Shown what) { return *std::ranges::find(kShownRows, what, &ShownRow::what); }

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
    std::ranges::stable_sort(tensor.pieces, {}, &ShownState::Piece::rank);
    tensors_.push_back(std::move(tensor));
  }
}

const ShownTensor* ShownTable::find(const ShownTensor& like, int step) const {
  const auto found = std::ranges::find_if(tensors_, [&](const ShownTensor& other) {
    return other.step == step && other.what == like.what && other.name == like.name &&
           other.microbatch == like.microbatch;
  });
  return found == tensors_.end() ? nullptr : &*found;
}

double ShownTable::largest(Shown what) const {
  const auto found = largest_.find(what);
  return found == largest_.end() ? 0.0 : found->second;
}

// --- Comparison --------------------------------------------------------------------------------

DiagnosisSide side_of(const ShownState::Piece& piece, std::string action) {
  return {.ranks = {piece.rank}, .action = std::move(action), .site = piece.site};
}

Diagnosis begin_diagnosis(const char* code, const ShownTensor& tensor, const std::string& what,
                          std::vector<DiagnosisSide> sides, std::string hint) {
  std::set<int> ranks;
  for (const ShownState::Piece* piece : tensor.pieces) ranks.insert(piece->rank);
  return {.code = code,
          .summary = tensor.describe() + " " + what,
          .members = {ranks.begin(), ranks.end()},
          .sides = std::move(sides),
          .hint = std::move(hint)};
}

bool Comparison::close(double a, double b) const {
  return a == b || std::abs(a - b) <= bound_;  // NaN is close to nothing.
}

bool Comparison::right(const ShownState::Piece& piece) const {
  return first_wrong(piece) == static_cast<std::int64_t>(piece.values.size());
}

bool Comparison::all_right() const {
  return std::ranges::all_of(tensor_.pieces,
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
  tensor_.for_each_value([&](std::size_t at, double value) {
    largest = std::max(largest, std::abs(value - wanted_[at]));
  });
  return largest / bound_;
}

// --- Cover of elements -------------------------------------------------------------------------

std::optional<Diagnosis> judge_cover(const ShownTensor& tensor, const ShownTensor& reference) {
  const char* code = tensor.what == Shown::tokens ? "TOKEN_LOST" : "SHARD_COVER";
  const std::int64_t whole = reference.whole();
  std::vector<int> count(static_cast<std::size_t>(whole), 0);
  for (const ShownState::Piece* piece : tensor.pieces) {
    if (piece->whole != whole || piece->first < 0 || piece->end() > whole) {
      return begin_diagnosis(
          code, tensor, fmt::format("has {} elements; on one rank it has {}", piece->whole, whole),
          {side_of(*piece, fmt::format("shows elements {} to {} of {}", piece->first,
                                       piece->end() - 1, piece->whole))},
          "ShowOptions::first and whole are elements of the whole tensor");
    }
    for (std::int64_t i = piece->first; i < piece->end(); ++i) ++count[static_cast<std::size_t>(i)];
  }
  if (whole == 0) return std::nullopt;
  // Most elements are right: their count of ranks is the right one.
  std::map<int, int> times;
  for (const int shown : count) ++times[shown];
  const int usual = std::ranges::max_element(times, {}, [](const auto& each) {
                      return std::pair(each.first > 0, each.second);
                    })->first;
  const auto odd = std::ranges::find_if(count, [&](int n) { return n == 0 || n != usual; });
  if (odd == count.end()) return std::nullopt;
  const std::int64_t at = odd - count.begin();
  Diagnosis diagnosis = begin_diagnosis(
      code, tensor,
      *odd == 0 ? fmt::format("has a gap: no rank shows element {} of {}", at, whole)
                : fmt::format("overlaps: element {} of {} is shown by {} {}, others by {}", at,
                              whole, *odd, *odd == 1 ? "rank" : "ranks", usual));
  // Beside the gap, or within the overlap.
  for (const ShownState::Piece* piece : tensor.pieces) {
    const bool beside = *odd == 0 ? piece->end() == at : piece->first <= at && at < piece->end();
    if (!beside || piece->values.empty()) continue;
    diagnosis.sides.insert(
        diagnosis.sides.begin(),
        side_of(*piece, fmt::format("shows elements {} to {}", piece->first, piece->end() - 1)));
  }
  if (diagnosis.sides.empty()) diagnosis.sides = {side_of(*tensor.pieces.front(), "shows others")};
  diagnosis.hint = tensor.what == Shown::tokens
                       ? "every token that was sent to an expert has to come back, or be counted "
                         "as dropped by the reference as well"
                       : "shards have to cut the tensor without gap or overlap, its last elements "
                         "and padding included";
  return diagnosis;
}

// --- Ranks that have the same elements ---------------------------------------------------------

bool diverge(const ShownTensor& tensor, const Comparison& comparison) {
  std::vector<const double*> seen(comparison.wanted().size(), nullptr);
  bool found = false;
  tensor.for_each_value([&](std::size_t at, const double& value) {
    if (seen[at] == nullptr) seen[at] = &value;
    found = found || !comparison.close(*seen[at], value);
  });
  return found;
}

Diagnosis explain_divergence(const ShownTensor& tensor, const Comparison& comparison,
                             const std::string& what, const std::string& hint) {
  Diagnosis diagnosis = begin_diagnosis("REPLICA_DIVERGED", tensor, what);
  for (const auto& party : parties(tensor, comparison)) {
    const ShownState::Piece& one = *party.front();
    const std::int64_t at = std::min<std::int64_t>(
        comparison.first_wrong(one), static_cast<std::int64_t>(one.values.size()) - 1);
    DiagnosisSide side =
        side_of(one, at < 0 ? "nothing"
                            : fmt::format("element {}: {:.6g}{}", one.first + at,
                                          one.values[static_cast<std::size_t>(at)],
                                          comparison.right(one) ? ", as on one rank" : ""));
    side.ranks.clear();
    for (const ShownState::Piece* piece : party) side.ranks.push_back(piece->rank);
    diagnosis.sides.push_back(std::move(side));
  }
  diagnosis.hint = hint;
  return diagnosis;
}

}  // namespace shardsim

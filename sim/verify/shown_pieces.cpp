#include "sim/verify/shown_pieces.hpp"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

namespace shardsim {

void PiecedState::add(const StatePiece& piece, const ReferenceTensors& expected) {
  const std::string_view kind = kind_name(piece);
  auto found = kinds_.find(kind);
  if (found == kinds_.end()) found = kinds_.emplace(kind, expected).first;
  std::vector<double>& values = found->second[static_cast<std::size_t>(piece.parameter)];
  for (std::int64_t i = 0; i < piece.values.numel(); ++i) {
    values[static_cast<std::size_t>(piece.first + i)] = piece.values.get(i);
  }
}

// --- Coverage ----------------------------------------------------------------------------------

void Coverage::count(std::int64_t step, const StatePiece& piece, std::size_t numel) {
  std::vector<int>& holders = holders_[{step, std::string(kind_name(piece)), piece.parameter}];
  holders.resize(numel);
  const auto first = static_cast<std::size_t>(piece.first);
  for (std::size_t i = 0; i < static_cast<std::size_t>(piece.values.numel()); ++i) {
    ++holders.at(first + i);
  }
}

std::optional<std::string> Coverage::find_gap(const Expectations& expected,
                                              const Model& model) const {
  for (std::int64_t step = 0; step < expected.num_steps(); ++step) {
    for (const auto& [kind, tensors] : expected.step(step).kinds) {
      // Gradients that may overflow are not compared, nor counted.
      const bool is_compared =
          kind != "gradient" || expected.overflow(step) == Expectations::Overflow::no;
      if (!is_compared) continue;
      if (std::optional<std::string> gap = find_gap(step, kind, tensors, model)) return gap;
    }
  }
  return std::nullopt;
}

std::optional<std::string> Coverage::find_gap(std::int64_t step, const std::string& kind,
                                              const ReferenceTensors& tensors,
                                              const Model& model) const {
  // Holders of the first element of dense weights and of experts; all others must have as many. If
  // nothing is sharded, fewer ranks hold an expert than a dense weight.
  std::optional<int> first_of_kind[2];
  for (std::size_t parameter = 0; parameter < tensors.size(); ++parameter) {
    std::optional<int>& first = first_of_kind[model.parameters()[parameter].expert ? 1 : 0];
    const auto counted = holders_.find({step, kind, static_cast<int>(parameter)});
    for (std::size_t i = 0; i < tensors[parameter].size(); ++i) {
      const int here = counted == holders_.end() ? 0 : counted->second[i];
      if (!first) first = here;
      if (here == *first && here > 0) continue;
      return fmt::format(
          "step {}: element {} of the {} of {} is held by {} ranks, the first element of its kind "
          "by {}: shards do not cover, or overlap",
          step, i, kind, model.parameters()[parameter].name, here, *first);
    }
  }
  return std::nullopt;
}

// --- Replicas ----------------------------------------------------------------------------------

bool Fingerprints::Entry::operator==(const Entry& other) const {
  return kind == other.kind && parameter == other.parameter && hash.value() == other.hash.value();
}

void Fingerprints::add(const StatePiece& piece) {
  const std::string_view kind = kind_name(piece);
  const bool is_next = entries_.empty() || entries_.back().parameter != piece.parameter ||
                       entries_.back().kind != kind;
  if (is_next) entries_.push_back({kind, piece.kind, piece.parameter, {}});
  RollingHash& hash = entries_.back().hash;
  for (std::int64_t i = 0; i < piece.values.numel(); ++i) {
    hash.add(std::bit_cast<std::uint64_t>(piece.values.get(i)));
  }
}

void Replicas::add(std::int64_t step, int phase, const ReplicaGroup& group, int rank,
                   const Fingerprints& shown) {
  Versions& versions = held_[{step, phase, group}];
  const auto same = std::ranges::find(versions, shown.entries(), &Version::entries);
  if (same == versions.end()) {
    versions.push_back({rank, shown.entries()});
  } else {
    same->lowest_rank = std::min(same->lowest_rank, rank);
  }
}

std::optional<Replicas::Difference> Replicas::difference_of(Versions versions) {
  std::ranges::sort(versions, {}, &Version::lowest_rank);
  std::optional<Difference> first;
  for (std::size_t i = 1; i < versions.size(); ++i) {
    const auto& [rank, expected] = versions.front();
    const auto& [other_rank, entries] = versions[i];
    const auto [a, b] =
        std::mismatch(expected.begin(), expected.end(), entries.begin(), entries.end());
    // If one shows less, the tensor that it lacks.
    const Fingerprints::Entry& entry = a != expected.end() ? *a : *b;
    const Difference difference{
        {static_cast<int>(entry.state_kind), entry.parameter, rank, other_rank}, entry.kind};
    if (!first || difference.order < first->order) first = difference;
  }
  return first;
}

std::optional<std::string> Replicas::find_difference(const Model& model) const {
  std::optional<Difference> first;
  std::pair<std::int64_t, int> first_time;
  for (const auto& [key, versions] : held_) {
    const auto& [step, phase, group] = key;
    if (first && std::pair(step, phase) != first_time) break;
    const std::optional<Difference> difference = difference_of(versions);
    if (!difference || (first && first->order <= difference->order)) continue;
    first = difference;
    first_time = {step, phase};
  }
  if (!first) return std::nullopt;
  const auto& [kind, parameter, rank, other_rank] = first->order;
  return fmt::format("step {}: ranks {} and {} hold replicas of {} of {} that differ",
                     first_time.first, rank, other_rank, first->kind,
                     model.parameters()[static_cast<std::size_t>(parameter)].name);
}

}  // namespace shardsim

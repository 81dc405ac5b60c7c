#include "sim/harness/named_difference.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>

#include <fmt/format.h>

#include "sim/harness/rounding_error.hpp"

namespace shardsim {

namespace {

// The accuracy that tells a factor from 1 and from another factor.
constexpr double kAccuracy = 1e-6;
// Whole factors up to this one are told from chance, and offsets up to that.
constexpr int kLargestFactor = 64;
constexpr std::ptrdiff_t kLargestShift = 64;

// An element that differs.
struct WrongElement {
  std::size_t at = 0;
  double value = 0.0;
  double wanted = 0.0;
};

class ValueNamer {
 public:
  explicit ValueNamer(const DifferenceContext& context)
      : context_(context), comparison_(context.comparison), wanted_(comparison_.wanted()) {
    for (const ShownState::Piece* piece : context.tensor.pieces) {
      if (comparison_.right(*piece)) continue;
      wrong_pieces_.push_back(piece);
      for (std::size_t i = 0; i < piece->values.size(); ++i) {
        const std::size_t at = static_cast<std::size_t>(piece->first) + i;
        if (comparison_.close(piece->values[i], wanted_[at])) continue;
        wrong_.push_back({.at = at, .value = piece->values[i], .wanted = wanted_[at]});
      }
    }
  }

  [[nodiscard]] std::optional<NamedDifference> name() const {
    const auto is_finite = [](const WrongElement& each) { return std::isfinite(each.value); };
    if (wrong_.empty() || !std::ranges::all_of(wrong_, is_finite)) return std::nullopt;
    for (const auto rule : {&ValueNamer::zero, &ValueNamer::stale, &ValueNamer::scaled,
                            &ValueNamer::of_norm, &ValueNamer::halves, &ValueNamer::shifted,
                            &ValueNamer::reordered, &ValueNamer::at_edges}) {
      if (std::optional<NamedDifference> found = (this->*rule)()) {
        found->what += where();
        return found;
      }
    }
    return std::nullopt;
  }

 private:
  // " on rank 2", " in elements 4 to 7", if that is not all.
  [[nodiscard]] std::string where() const {
    std::string text;
    std::set<std::size_t> elements;
    for (const WrongElement& each : wrong_) elements.insert(each.at);
    std::set<std::size_t> all;
    std::set<int> ranks;
    std::set<int> all_ranks;
    for (const ShownState::Piece* piece : context_.tensor.pieces) all_ranks.insert(piece->rank);
    for (const ShownState::Piece* piece : wrong_pieces_) {
      ranks.insert(piece->rank);
      for (std::int64_t i = piece->first; i < piece->end(); ++i) {
        all.insert(static_cast<std::size_t>(i));
      }
    }
    const std::size_t first = *elements.begin();
    const std::size_t last = *elements.rbegin();
    if (elements.size() < all.size() && last - first + 1 == elements.size()) {
      text = first == last ? fmt::format(" in element {}", first)
                           : fmt::format(" in elements {} to {}", first, last);
    }
    if (ranks.size() == all_ranks.size()) return text;
    return text + (ranks.size() == 1 ? " on rank " : " on ranks ") +
           format_ranks({ranks.begin(), ranks.end()});
  }

  [[nodiscard]] std::optional<NamedDifference> zero() const {
    const auto is_zero = [](const WrongElement& each) { return each.value == 0.0; };
    if (!std::ranges::all_of(wrong_, is_zero)) return std::nullopt;
    return NamedDifference{.what = "is 0, and not as that of one device"};
  }

  [[nodiscard]] std::optional<NamedDifference> stale() const {
    if (context_.before == nullptr || context_.before->whole() != std::ssize(wanted_)) {
      return std::nullopt;
    }
    const std::vector<double> before = context_.before->values();
    const auto is_old = [&](const WrongElement& each) {
      return comparison_.close(each.value, before[each.at]);
    };
    if (!is_evidence(comparison_, count()) || !std::ranges::all_of(wrong_, is_old)) {
      return std::nullopt;
    }
    return NamedDifference{
        .what = fmt::format("is that of the step before: version {}", context_.tensor.step - 1),
        .hint = "values of the step before: look for what is used before it is made anew",
        .is_stale = true};
  }

  [[nodiscard]] std::optional<NamedDifference> scaled() const {
    double above = 0.0;
    double below = 0.0;
    for (const WrongElement& each : wrong_) {
      above += each.value * each.wanted;
      below += each.wanted * each.wanted;
    }
    if (below == 0.0 || above == 0.0) return std::nullopt;
    const double factor = above / below;
    const double stretch = std::max(1.0, std::abs(factor));
    const auto is_multiple = [&](const WrongElement& each) {
      return comparison_.close(each.value / stretch, factor * each.wanted / stretch);
    };
    if (!std::ranges::all_of(wrong_, is_multiple)) return std::nullopt;
    const bool is_norm = context_.tensor.what == Shown::norm;
    const std::string owner = owner_of_factor(factor, context_.groups);
    const std::string owner_of_root =
        is_norm ? owner_of_factor(factor * factor, context_.groups) : "";
    // Each number is a multiple of another: one alone tells only if its factor has a meaning.
    const bool has_meaning = !owner.empty() || !owner_of_root.empty() || is_whole(factor);
    if (!is_evidence(comparison_, count() - (has_meaning ? 0 : 1))) return std::nullopt;
    if (std::abs(factor + 1.0) < kAccuracy) {
      return NamedDifference{.what = "has the opposite sign of that of one device"};
    }
    const std::string name = owner.empty() ? owner_of_root : owner;
    return NamedDifference{
        .what = fmt::format(
            "is {} times that of one device{}", words_of_factor(factor),
            name.empty() ? "" : fmt::format(" ({}{})", owner.empty() ? "the root of " : "", name)),
        .hint = owner.empty() && !owner_of_root.empty() ? hint_of_root(factor)
                                                        : hint_of_factor(factor, !owner.empty())};
  }

  static std::string hint_of_root(double factor) {
    return factor > 1.0 ? "count what is replicated once before the root"
                        : "squares are averaged over the ranks: sum them";
  }

  static bool is_whole(double factor) {
    const double size = std::max(std::abs(factor), 1.0 / std::abs(factor));
    const bool is_named = std::round(size) >= 2.0 || factor < 0.0;
    return is_named && size < kLargestFactor + 1.0 && std::abs(size - std::round(size)) < kAccuracy;
  }

  // A norm that is squared, or that counts some gradient more or less than once.
  [[nodiscard]] std::optional<NamedDifference> of_norm() const {
    const WrongElement& one = wrong_.front();
    if (context_.tensor.what != Shown::norm || wanted_.size() != 1) return std::nullopt;
    const auto same = [&](const WrongElement& each) {
      return comparison_.close(each.value, one.value);
    };
    if (!is_evidence(comparison_, 1) || !std::ranges::all_of(wrong_, same)) return std::nullopt;
    const double stretch = std::max(1.0, std::abs(one.wanted));
    if (comparison_.close(one.value / stretch, one.wanted * one.wanted / stretch)) {
      return NamedDifference{.what = "is the square of that of one device",
                             .hint = "the square of the norm: the root is missing"};
    }
    return of_squares(one);
  }

  // A norm that counts one gradient some times more or less. Two that fit explain nothing.
  [[nodiscard]] std::optional<NamedDifference> of_squares(const WrongElement& one) const {
    std::optional<NamedDifference> found;
    for (const auto& [name, squares] : context_.squares) {
      for (int times = 0; times <= kLargestFactor; ++times) {
        if (times == 1) continue;
        const double square = one.wanted * one.wanted + (times - 1.0) * squares;
        if (square < 0.0 || !comparison_.close(one.value, std::sqrt(square))) continue;
        if (found) return std::nullopt;
        found =
            times == 0
                ? NamedDifference{.what = "is that of one device without the gradient of " + name,
                                  .hint = "the norm is that without the gradient of " + name}
                : NamedDifference{
                      .what = fmt::format("counts the gradient of {} {} times", name, times),
                      .hint = "count what is replicated once: the gradient of " + name};
      }
    }
    return found;
  }

  [[nodiscard]] std::optional<NamedDifference> halves() const {
    const auto swapped = [&](std::size_t first, std::size_t size, const ShownState::Piece& piece) {
      if (size % 2 != 0 || size == 0) return false;
      for (std::size_t i = 0; i < piece.values.size(); ++i) {
        const std::size_t at = static_cast<std::size_t>(piece.first) + i;
        const std::size_t from = first + (at - first + size / 2) % size;
        if (!comparison_.close(piece.values[i], wanted_[from])) return false;
      }
      return true;
    };
    const auto of_whole = [&](const ShownState::Piece* piece) {
      return swapped(0, wanted_.size(), *piece);
    };
    const auto of_part = [&](const ShownState::Piece* piece) {
      return swapped(static_cast<std::size_t>(piece->first), piece->values.size(), *piece);
    };
    const bool whole = std::ranges::all_of(wrong_pieces_, of_whole);
    if (!is_evidence(comparison_, count())) return std::nullopt;
    if (!whole && !std::ranges::all_of(wrong_pieces_, of_part)) return std::nullopt;
    return NamedDifference{
        .what = whole ? "is that of one device, but its halves are swapped"
                      : "is that of one device, but the halves of each part are swapped",
        .hint = "halves are swapped: look at the order in which parts are put together"};
  }

  [[nodiscard]] std::optional<NamedDifference> shifted() const {
    std::ptrdiff_t smallest = std::ssize(wanted_);
    for (const ShownState::Piece* piece : wrong_pieces_) {
      smallest = std::min(smallest, std::ssize(piece->values));
    }
    for (std::ptrdiff_t shift = 1; shift <= std::min(kLargestShift, (smallest - 1) / 2); ++shift) {
      for (const std::ptrdiff_t by : {shift, -shift}) {
        if (is_shifted(by)) return explain_shift(by);
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] bool is_shifted(std::ptrdiff_t by) const {
    std::ptrdiff_t matches = 0;
    for (const ShownState::Piece* piece : wrong_pieces_) {
      const std::ptrdiff_t size = std::ssize(piece->values);
      for (std::ptrdiff_t i = 0; i < size; ++i) {
        // Elements from beyond the part may be anything.
        if (i + by < 0 || i + by >= size) continue;
        const auto from = static_cast<std::size_t>(piece->first + i + by);
        if (!comparison_.close(piece->values[static_cast<std::size_t>(i)], wanted_[from])) {
          return false;
        }
        // Right elements tell nothing: next to equal ones they fit any shift.
        const auto own = static_cast<std::size_t>(piece->first + i);
        if (!comparison_.close(piece->values[static_cast<std::size_t>(i)], wanted_[own])) ++matches;
      }
    }
    return is_evidence(comparison_, matches);
  }

  static NamedDifference explain_shift(std::ptrdiff_t by) {
    const std::ptrdiff_t size = std::abs(by);
    const std::string elements = fmt::format("{} element{}", size, size == 1 ? "" : "s");
    return {.what = fmt::format("is shifted by {}: element i has the value of element i {} {}",
                                elements, by > 0 ? '+' : '-', size),
            .hint = fmt::format("shifted by {}: look at the offsets that are read and written",
                                elements)};
  }

  [[nodiscard]] std::optional<NamedDifference> reordered() const {
    if (wrong_pieces_.size() != context_.tensor.pieces.size() || count() < 2) {
      return std::nullopt;
    }
    std::vector<double> values = context_.tensor.values();
    std::vector<double> sorted = wanted_;
    std::ranges::sort(values);
    std::ranges::sort(sorted);
    const bool same = std::equal(values.begin(), values.end(), sorted.begin(), sorted.end(),
                                 [&](double a, double b) { return comparison_.close(a, b); });
    if (!same || !is_evidence(comparison_, count())) return std::nullopt;
    return NamedDifference{.what = "has the values of one device in another order",
                           .hint = "look at the order of elements"};
  }

  // Outputs that are wrong where the part of a rank begins or ends, and right inside.
  [[nodiscard]] std::optional<NamedDifference> at_edges() const {
    if (context_.tensor.what != Shown::output) return std::nullopt;
    for (const ShownState::Piece* piece : wrong_pieces_) {
      const std::size_t size = piece->values.size();
      if (size == wanted_.size()) return std::nullopt;
      const auto is_right = [&](std::size_t i) {
        return comparison_.close(piece->values[i],
                                 wanted_[static_cast<std::size_t>(piece->first) + i]);
      };
      std::size_t first = 0;
      while (first < size && !is_right(first)) ++first;
      std::size_t last = size;
      while (last > first && !is_right(last - 1)) --last;
      // Only where another part begins is there a neighbour.
      const std::size_t begin = static_cast<std::size_t>(piece->first);
      if (first > 0 && begin == 0) return std::nullopt;
      if (last < size && begin + size == wanted_.size()) return std::nullopt;
      // Most of the part is right, and in one stretch.
      if (2 * (last - first) <= size) return std::nullopt;
      for (std::size_t i = first; i < last; ++i) {
        if (!is_right(i)) return std::nullopt;
      }
    }
    return NamedDifference{
        .what = "differs from that of one device at the edges of parts",
        .hint =
            "look at what a rank sees of its neighbours at the edges of its part: offsets, "
            "masks"};
  }

  // Copies of an element are one.
  [[nodiscard]] std::ptrdiff_t count() const {
    std::set<std::size_t> elements;
    for (const WrongElement& each : wrong_) elements.insert(each.at);
    return std::ssize(elements);
  }

  const DifferenceContext& context_;
  const Comparison& comparison_;
  const std::vector<double>& wanted_;
  std::vector<const ShownState::Piece*> wrong_pieces_;
  std::vector<WrongElement> wrong_;
};

}  // namespace

std::optional<NamedDifference> name_values(const DifferenceContext& context) {
  return ValueNamer(context).name();
}

}  // namespace shardsim

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "sim/harness/named_difference.hpp"
#include "sim/harness/rounding_error.hpp"

namespace shardsim {

namespace {

// The accuracy that tells one factor from another.
constexpr double kFactorAccuracy = 1e-6;
// Factors up to this one, or one over it, have a name.
constexpr double kLargestNamed = 64.0;
// Chance agrees with a rule once in ten to the power of so many.
constexpr double kDigits = 4.0;

}  // namespace

bool is_evidence(const Comparison& comparison, std::ptrdiff_t matches) {
  const double scale = largest(comparison.wanted());
  if (matches <= 0 || scale == 0.0) return false;
  const double chance = std::min(1.0, 2.0 * comparison.bound() / scale);
  // At a bound of 0 one element is enough.
  return chance == 0.0 || -std::log10(chance) * static_cast<double>(matches) >= kDigits;
}

std::string words_of_factor(double factor) {
  std::string text = fmt::format("{:.3f}", factor);
  const bool says_nothing =
      text == "1.000" || text == "-1.000" || text == "0.000" || text == "-0.000";
  return says_nothing ? fmt::format("{:.9g}", factor) : text;
}

std::string owner_of_factor(double factor, const std::vector<std::pair<std::string, int>>& groups) {
  std::set<std::string> names;
  for (const auto& [name, size] : groups) {
    if (size == 1) continue;
    const bool fits = std::abs(factor - size) < kFactorAccuracy * size ||
                      std::abs(factor * size - 1.0) < kFactorAccuracy;
    if (fits) names.insert(name);
  }
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "the size of " : ", or of ") + name;
  return text;
}

std::string hint_of_factor(double factor, bool is_size_of_group) {
  // Nobody can tell a sum over two ranks from a 2 that is there for another reason.
  const bool is_two = std::abs(std::max(factor, 1.0 / factor) - 2.0) < kFactorAccuracy;
  if (is_size_of_group && factor > 1.0) {
    return is_two ? "a sum is not divided or made twice, or a factor of 2 is applied twice"
                  : "a sum is not divided, or made twice";
  }
  if (is_size_of_group) {
    return is_two ? "a mean is taken twice or over too many, or a factor of 1/2 is applied twice"
                  : "a mean is taken twice, or over too many";
  }
  const double whole = std::round(std::max(factor, 1.0 / factor));
  if (factor <= 0.0 || whole < 2.0 || whole > kLargestNamed) return {};
  if (std::abs(factor - whole) < kFactorAccuracy * whole) {
    return fmt::format("a factor of {0} is applied twice, or one of 1/{0} is left out", whole);
  }
  if (std::abs(factor * whole - 1.0) < kFactorAccuracy) {
    return fmt::format("a factor of 1/{0} is applied twice, or one of {0} is left out", whole);
  }
  return {};
}

// --- Ranks that hold parts ---------------------------------------------------------------------

namespace {

// The ranks that agree, and one piece of theirs.
struct PartyOfRanks {
  std::vector<int> ranks;
  const ShownState::Piece* piece = nullptr;
};

// Empty unless every rank shows the same elements once.
std::vector<PartyOfRanks> parties_by_rank(const DifferenceContext& context) {
  std::vector<PartyOfRanks> parties;
  for (const ShownState::Piece* piece : context.tensor.pieces) {
    const ShownState::Piece& first = *context.tensor.pieces.front();
    if (piece->first != first.first || piece->values.size() != first.values.size()) return {};
    const auto agrees = [&](const PartyOfRanks& party) {
      return std::equal(piece->values.begin(), piece->values.end(), party.piece->values.begin(),
                        [&](double a, double b) { return context.comparison.close(a, b); });
    };
    const auto mine = std::ranges::find_if(parties, agrees);
    if (mine == parties.end()) {
      parties.push_back({.ranks = {piece->rank}, .piece = piece});
    } else {
      mine->ranks.push_back(piece->rank);
    }
  }
  return parties;
}

// Whether the parties' values, each put through `term` and added up, make the reference.
template <class Term, class Total>
bool make_up(const DifferenceContext& context, const std::vector<PartyOfRanks>& parties,
             const Term& term, const Total& total) {
  const ShownState::Piece& first = *parties.front().piece;
  for (std::size_t i = 0; i < first.values.size(); ++i) {
    double sum = 0.0;
    for (const PartyOfRanks& party : parties) sum += term(party, party.piece->values[i]);
    const double wanted = context.comparison.wanted()[static_cast<std::size_t>(first.first) + i];
    if (!context.comparison.close(total(sum), wanted)) return false;
  }
  return true;
}

std::string list_parties(const std::vector<PartyOfRanks>& parties) {
  constexpr std::size_t kMost = 4;
  std::string text;
  for (std::size_t i = 0; i < parties.size() && i < kMost; ++i) {
    text += (text.empty()              ? ""
             : i + 1 == parties.size() ? " and "
                                       : ", ") +
            format_ranks(parties[i].ranks);
  }
  return parties.size() > kMost ? text + ", ..." : text;
}

// Whether the parties' values are parts of the reference. `are_alone`: each party is one rank.
// `may_be_mean`: also terms of a mean, which do not tell a party of ranks from these ranks alone.
std::optional<NamedDifference> name_parties(const DifferenceContext& context,
                                            const std::vector<PartyOfRanks>& parties,
                                            bool are_alone, bool may_be_mean) {
  const auto same = [](double sum) { return sum; };
  const auto root = [](double sum) { return std::sqrt(sum); };
  const auto value = [](const PartyOfRanks&, double x) { return x; };
  const auto square = [](const PartyOfRanks&, double x) { return x * x; };
  const auto all = static_cast<double>(context.tensor.pieces.size());
  const auto mean = [all](const PartyOfRanks& party, double x) {
    return x * static_cast<double>(party.ranks.size()) / all;
  };
  const std::string differs = "differs between ranks that hold the same elements";
  if (context.tensor.what == Shown::norm && make_up(context, parties, square, root)) {
    return NamedDifference{
        .what = are_alone ? "is that of each rank's own part"
                          : "is that of part of the ranks: " + list_parties(parties),
        .hint =
            "the ranks hold parts of a sum of squares: sum squares over all shards before the "
            "root"};
  }
  const bool is_sum = make_up(context, parties, value, same);
  const bool is_mean = !is_sum && may_be_mean && make_up(context, parties, mean, same);
  if (!is_sum && !is_mean) return std::nullopt;
  if (are_alone) {
    return NamedDifference{
        .what = differs,
        .hint = is_sum ? "the ranks hold parts of a sum: the reduction over them is missing"
                       : "the ranks hold terms of a mean: the reduction over them is missing"};
  }
  return NamedDifference{
      .what = differs,
      .hint = fmt::format("ranks {} each hold their own {}: the reduction between them is missing",
                          list_parties(parties), is_sum ? "sum" : "mean")};
}

}  // namespace

std::optional<NamedDifference> name_parts(const DifferenceContext& context) {
  const std::vector<PartyOfRanks> parties = parties_by_rank(context);
  if (parties.size() < 2) return std::nullopt;
  if (!is_evidence(context.comparison, std::ssize(parties.front().piece->values))) {
    return std::nullopt;
  }
  // A rank that is right holds no part: the others lack what this one has.
  const auto is_right = [&](const PartyOfRanks& party) {
    return context.comparison.right(*party.piece);
  };
  if (std::ranges::any_of(parties, is_right)) return std::nullopt;
  // Parts of two ranks may be equal by chance.
  std::vector<PartyOfRanks> alone;
  for (const ShownState::Piece* piece : context.tensor.pieces) {
    alone.push_back({.ranks = {piece->rank}, .piece = piece});
  }
  const bool all_differ = parties.size() == alone.size();
  std::optional<NamedDifference> found = name_parties(context, alone, true, all_differ);
  if (!found && !all_differ) found = name_parties(context, parties, false, true);
  return found;
}

}  // namespace shardsim

#include "sim/harness/reduction_log.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "backends/reduce.hpp"

namespace shardsim {

namespace {

// A log of a larger program is not kept.
constexpr std::size_t kMostLogged = std::size_t{1} << 24U;
constexpr double kWeightAccuracy = 1e-6;
constexpr double kLargestWeight = 64.0;

// The terms of one shown part, by rank.
using Terms = std::map<int, std::vector<double>>;

bool is_zero(double value) { return value == 0.0; }

double total_of(const Terms& terms, std::size_t at) {
  double sum = 0.0;
  for (const auto& [_, term] : terms) sum += term[at];
  return sum;
}

class TermNamer {
 public:
  TermNamer(const DifferenceContext& context,
            const std::vector<std::pair<int, std::int64_t>>& shares)
      : comparison_(context.comparison),
        is_norm_(context.tensor.what == Shown::norm),
        shares_(shares.begin(), shares.end()),
        piece_(**std::ranges::find_if(context.tensor.pieces, [&](const auto* piece) {
          return !context.comparison.right(*piece);
        })) {}

  [[nodiscard]] std::optional<NamedDifference> name(const ReductionLog& log) const {
    if (!is_evidence(comparison_, std::ssize(piece_.values))) return std::nullopt;
    for (const auto& [_, reduction] : log.reductions()) {
      if (std::ssize(reduction.terms) != reduction.size || reduction.size < 2) continue;
      if (!reduction.terms.contains(piece_.rank)) continue;
      const std::optional<Terms> terms = terms_in(reduction);
      if (!terms) continue;
      if (std::optional<NamedDifference> found = judge(*terms, reduction)) return found;
    }
    return std::nullopt;
  }

 private:
  // The part of the reduction's terms whose sum is the shown piece, if it is such a sum.
  [[nodiscard]] std::optional<Terms> terms_in(const ReductionLog::Reduction& reduction) const {
    const std::size_t length = reduction.terms.begin()->second.size();
    const std::size_t size = piece_.values.size();
    for (std::size_t first = 0; first + size <= length; ++first) {
      std::size_t i = 0;
      while (i < size && shows(piece_.values[i], total_of(reduction.terms, first + i))) ++i;
      if (i < size) continue;
      Terms terms;
      for (const auto& [rank, all] : reduction.terms) {
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
        terms[rank] = {begin, begin + static_cast<std::ptrdiff_t>(size)};
      }
      return terms;
    }
    return std::nullopt;
  }

  // A norm is the root of what is added up.
  [[nodiscard]] bool shows(double shown, double sum) const {
    return comparison_.close(shown, is_norm_ ? std::sqrt(sum) : sum);
  }
  [[nodiscard]] bool makes_wanted(const Terms& terms) const {
    for (std::size_t i = 0; i < piece_.values.size(); ++i) {
      if (!shows(wanted(i), total_of(terms, i))) return false;
    }
    return true;
  }
  [[nodiscard]] double wanted(std::size_t i) const {
    return comparison_.wanted()[static_cast<std::size_t>(piece_.first) + i];
  }

  [[nodiscard]] std::optional<NamedDifference> judge(
      const Terms& terms, const ReductionLog::Reduction& reduction) const {
    const std::string differs = "differs from that of one device";
    if (is_mean_of_means(terms)) {
      return NamedDifference{
          .what = differs,
          .hint =
              "ranks have different parts of the batch: weight each by its tokens, a mean of "
              "means is not the mean"};
    }
    std::optional<NamedDifference> found;
    for (const auto& [rank, term] : terms) {
      // A rank may rightly have zeros in a part: only one without any number is named.
      const bool adds_nothing = std::ranges::all_of(reduction.terms.at(rank), is_zero);
      const std::string words =
          adds_nothing ? "adds only zeros to" : words_of_term(terms, rank, term);
      if (words.empty()) continue;
      if (found) return std::nullopt;  // It cannot be both.
      found = {.what = differs, .hint = fmt::format("rank {} {} {}", rank, words, reduction.call)};
    }
    return found;
  }

  [[nodiscard]] bool is_mean_of_means(const Terms& terms) const {
    double all = 0.0;
    for (const auto& [rank, _] : terms) {
      const auto share = shares_.find(rank);
      if (share == shares_.end()) return false;
      all += static_cast<double>(share->second);
    }
    Terms weighted = terms;
    for (auto& [rank, term] : weighted) {
      const auto share = static_cast<double>(shares_.find(rank)->second);
      for (double& value : term) value *= static_cast<double>(terms.size()) * share / all;
    }
    return makes_wanted(weighted);
  }

  // The words for one rank in the sum, if its term alone explains the difference.
  [[nodiscard]] std::string words_of_term(const Terms& terms, int rank,
                                          const std::vector<double>& term) const {
    double above = 0.0;
    double below = 0.0;
    for (std::size_t i = 0; i < term.size(); ++i) {
      const double right = is_norm_ ? wanted(i) * wanted(i) : wanted(i);
      above += (right - total_of(terms, i)) * term[i];
      below += term[i] * term[i];
    }
    if (below == 0.0) return {};
    // The right sum has the term 1 + above / below times.
    const double weight = 1.0 / (1.0 + above / below);
    Terms changed = terms;
    for (double& value : changed[rank]) value /= weight;
    const double whole = std::round(weight);
    const bool has_name = std::abs(weight - whole) < kWeightAccuracy * std::abs(whole) &&
                          std::abs(whole) <= kLargestWeight && whole != 0.0;
    if (!std::isfinite(weight) || (term.size() == 1 && !has_name)) return {};
    if (!makes_wanted(changed)) return {};
    if (std::abs(weight + 1.0) < kWeightAccuracy) return "has the opposite sign in";
    return fmt::format("is weighted {} times in", words_of_factor(weight));
  }

  const Comparison& comparison_;
  bool is_norm_;
  std::map<int, std::int64_t> shares_;
  const ShownState::Piece& piece_;
};

}  // namespace

void ReductionLog::add(const Key& key, const std::string& call, int size, int rank,
                       std::vector<double> terms) {
  num_values_ += terms.size();
  if (num_values_ > kMostLogged) return reductions_.clear();
  const auto [place, is_new] = reductions_.try_emplace(key);
  Reduction& reduction = place->second;
  if (is_new) {
    reduction.call = call;
    reduction.size = size;
  }
  // Members of a wrong program may disagree: then it is no sum.
  const bool fits = is_new || (reduction.call == call && !reduction.terms.empty() &&
                               reduction.terms.begin()->second.size() == terms.size());
  if (!fits) return reduction.terms.clear();
  reduction.terms[rank] = std::move(terms);
}

Work LoggingCommunicator::post(const Call& call) {
  const bool adds = call.record.reduce == ReduceOp::sum || call.record.reduce == ReduceOp::avg;
  // Members make the same collectives, but not the same messages.
  if (call.kind != CallKind::collective) return inner().post(call);
  const std::int64_t number = num_calls_++;
  const bool is_whole = call.record.reduces && adds;
  if (is_whole && call.input->defined() && call.input->has_data()) {
    const Tensor copy = unwatched_copy(*call.input);
    std::vector<double> terms(static_cast<std::size_t>(copy.numel()));
    for (std::size_t i = 0; i < terms.size(); ++i) {
      terms[i] = copy.get(static_cast<std::int64_t>(i));
      if (call.record.reduce == ReduceOp::avg) terms[i] /= size();
    }
    std::string name = call.record.name;
    if (*call.record.label != '\0') name += fmt::format(" \"{}\"", call.record.label);
    log_.add({group_, number}, name, size(), world_rank_, std::move(terms));
  }
  return inner().post(call);
}

std::unique_ptr<Communicator> LoggingCommunicator::split(int color, int key,
                                                         const std::string& name, CallSite site) {
  std::unique_ptr<Communicator> part = inner().split(color, key, name, site);
  const std::string way = fmt::format("{}/{}:{}", group_, num_splits_++, color);
  if (part == nullptr) return part;
  return std::unique_ptr<Communicator>(
      new LoggingCommunicator(std::move(part), log_, way, world_rank_));
}

std::optional<NamedDifference> name_terms(const DifferenceContext& context, const ReductionLog& log,
                                          const std::vector<std::pair<int, std::int64_t>>& shares) {
  if (context.comparison.all_right()) return std::nullopt;
  return TermNamer(context, shares).name(log);
}

}  // namespace shardsim

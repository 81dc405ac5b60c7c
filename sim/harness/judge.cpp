#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/dtype.hpp"

#include "sim/harness/named_difference.hpp"
#include "sim/harness/reduction_log.hpp"
#include "sim/harness/rounding_error.hpp"
#include "sim/harness/shown_state.hpp"

namespace shardsim {

namespace {

// Below fp64, noise of up to this many times the reference's own error needs no further look.
constexpr double kNoise = 10.0;
// The accuracy of a factor of -1.
constexpr double kFactorOfSign = 1e-6;
// A factor of all elements, or 0.
double factor_of(const std::vector<double>& values, const Comparison& comparison) {
  double above = 0.0;
  double below = 0.0;
  const std::vector<double>& wanted = comparison.wanted();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    above += values[i] * wanted[i];
    below += wanted[i] * wanted[i];
  }
  return below == 0.0 ? 0.0 : above / below;
}

bool is_multiple(const std::vector<double>& values, const Comparison& comparison, double factor) {
  const double stretch = std::max(1.0, std::abs(factor));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double wanted = factor * comparison.wanted()[i];
    if (!comparison.close(values[i] / stretch, wanted / stretch)) return false;
  }
  return factor != 0.0;
}

// The data of a judgement.
class Judge {
 public:
  Judge(const ShownState& shown, const ShownState& reference, const JudgeOptions& options)
      : shown_(shown),
        options_(options),
        table_(shown, reference),
        reference_(reference, reference),
        exact_(options.exact == nullptr ? reference : *options.exact, reference) {}

  std::optional<Diagnosis> verdict() const {
    for (const ShownTensor& tensor : table_.tensors()) {
      const ShownTensor* wanted = exact_.find(tensor, tensor.step);
      if (wanted == nullptr) return unknown(tensor, "is shown by no reference");
      if (std::optional<Diagnosis> found = judge_cover(tensor, *wanted)) return found;
      if (std::optional<Diagnosis> found = judge_values(tensor, *wanted)) return found;
    }
    for (const ShownTensor& wanted : reference_.tensors()) {
      if (table_.find(wanted, wanted.step) == nullptr) {
        return unknown(wanted, "is shown by the reference, and by no rank");
      }
    }
    return std::nullopt;
  }

 private:
  static Diagnosis unknown(const ShownTensor& tensor, const char* what) {
    return begin_diagnosis("SHOW_MISMATCH", tensor, what,
                           {side_of(*tensor.pieces.front(), "shows it")},
                           "show the same names, kinds and steps at every number of ranks");
  }

  [[nodiscard]] Comparison compare(const ShownTensor& tensor, const ShownTensor& wanted) const {
    const double scale = scale_of(wanted.values(), exact_.largest(wanted.what));
    if (options_.exact == nullptr) return {tensor, wanted, options_.tolerance * scale};
    const double least = noise_bound(tensor, scale);
    const Comparison comparison(tensor, wanted, least);
    if (!options_.noise || comparison.all_right()) return comparison;
    return {tensor, wanted, std::max(least, options_.noise(tensor))};
  }

  // Ten times the reference's own distance from fp64, and never below its last bit.
  [[nodiscard]] double noise_bound(const ShownTensor& tensor, double scale) const {
    double error = scale * unit_roundoff(options_.precision);
    const ShownTensor* rounded = reference_.find(tensor, tensor.step);
    const ShownTensor* exact = exact_.find(tensor, tensor.step);
    if (rounded != nullptr && exact != nullptr && rounded->whole() == exact->whole()) {
      const std::vector<double> a = rounded->values();
      const std::vector<double> b = exact->values();
      for (std::size_t i = 0; i < a.size(); ++i) error = std::max(error, std::abs(a[i] - b[i]));
    }
    return kNoise * error;
  }

  [[nodiscard]] std::optional<Diagnosis> judge_values(const ShownTensor& tensor,
                                                      const ShownTensor& wanted) const {
    const Comparison comparison = compare(tensor, wanted);
    if (comparison.all_right()) return std::nullopt;
    Diagnosis found = name_difference(tensor, comparison);
    found.right = list_of_right(tensor);
    return found;
  }

  [[nodiscard]] Diagnosis name_difference(const ShownTensor& tensor,
                                          const Comparison& comparison) const {
    const bool of_model = tensor.what == Shown::gradient || tensor.what == Shown::parameter ||
                          tensor.what == Shown::optimizer_state;
    const DifferenceContext context = {.tensor = tensor,
                                       .comparison = comparison,
                                       .before = exact_.find(tensor, tensor.step - 1),
                                       .groups = shown_.groups(),
                                       .squares = squares_of_gradients(tensor)};
    const std::optional<NamedDifference> parts = name_parts(context);
    if (of_model && diverge(tensor, comparison)) return divergence(context, parts);
    if (tensor.what == Shown::gradient) {
      std::optional<Diagnosis> scaled = judge_scale(tensor, comparison);
      if (scaled) return with_ratio(*std::move(scaled), comparison);
    }
    if (tensor.what == Shown::parameter && is_stale(tensor, comparison)) {
      return explain_stale(tensor, comparison);
    }
    std::optional<NamedDifference> named = parts;
    if (!named) named = name_values(context);
    if (!named && options_.reductions) {
      named = name_terms(context, *options_.reductions(), shown_.shares());
    }
    if (named && named->is_stale && tensor.what == Shown::parameter) {
      Diagnosis stale = explain_stale(tensor, comparison);
      stale.summary = tensor.describe() + " " + named->what;
      stale.hint = named->hint;
      return stale;
    }
    if (!named) named = {.what = "differs from that of one device", .hint = usual_hint(tensor)};
    return with_ratio(begin_diagnosis(row_of(tensor.what).code, tensor, named->what,
                                      {comparison.wrong_side()}, named->hint),
                      comparison);
  }

  // That of the kind. The update is to blame only if its gradients are known to be right.
  [[nodiscard]] std::string usual_hint(const ShownTensor& tensor) const {
    const std::string hint = row_of(tensor.what).hint;
    const bool is_update = tensor.what == Shown::parameter || tensor.what == Shown::optimizer_state;
    if (!is_update) return hint;
    const bool known = std::ranges::any_of(table_.tensors(), [&](const ShownTensor& other) {
      return other.what == Shown::gradient && other.step == tensor.step;
    });
    return known ? "gradients are right: " + hint : std::string();
  }

  [[nodiscard]] Diagnosis divergence(const DifferenceContext& context,
                                     const std::optional<NamedDifference>& parts) const {
    const std::string differs = "differs between ranks that hold the same elements";
    if (parts) {
      return explain_divergence(context.tensor, context.comparison, parts->what, parts->hint);
    }
    const std::optional<NamedDifference> named = name_values(context);
    const bool is_update = context.tensor.what != Shown::gradient;
    const std::string usual =
        is_update ? "ranks that hold copies have to apply the same update to the same values" : "";
    return explain_divergence(context.tensor, context.comparison,
                              named ? differs + "; it " + named->what : differs,
                              named ? named->hint : usual);
  }

  // For a norm: sums of squares of all gradients of its step.
  [[nodiscard]] std::vector<std::pair<std::string, double>> squares_of_gradients(
      const ShownTensor& norm) const {
    std::vector<std::pair<std::string, double>> all;
    if (norm.what != Shown::norm) return all;
    for (const ShownTensor& each : exact_.tensors()) {
      if (each.what != Shown::gradient || each.step != norm.step) continue;
      double sum = 0.0;
      for (const double value : each.values()) sum += value * value;
      all.emplace_back(each.name, sum);
    }
    return all;
  }

  // "outputs hidden, prediction; gradient of bias": what is right of the step that differs.
  [[nodiscard]] std::string list_of_right(const ShownTensor& wrong) const {
    constexpr int kMostNames = 6;
    std::string text;
    int others = 0;
    Shown last = wrong.what;
    int names = 0;
    const auto close_kind = [&] {
      if (names > kMostNames) text += fmt::format(" and {} more", names - kMostNames);
      names = 0;
    };
    for (const ShownTensor& each : table_.tensors()) {
      if (each.step != wrong.step || &each == &wrong) continue;
      ++others;
      const ShownTensor* const wanted = exact_.find(each, each.step);
      if (wanted == nullptr || judge_cover(each, *wanted) || !compare(each, *wanted).all_right()) {
        continue;
      }
      if (names == 0 || each.what != last) {
        close_kind();
        text += fmt::format("{}{} ", text.empty() ? "" : "; ", row_of(each.what).words);
      }
      last = each.what;
      if (++names > kMostNames) continue;
      text += (names == 1 ? "" : ", ") + each.name;
      if (each.microbatch >= 0) text += fmt::format(" ({})", each.microbatch);
    }
    close_kind();
    if (others > 0 && text.empty()) return fmt::format("nothing else of step {}", wrong.step);
    return text;
  }

  // Adds the ratio of the error to that of one device.
  [[nodiscard]] Diagnosis with_ratio(Diagnosis diagnosis, const Comparison& comparison) const {
    if (options_.exact == nullptr) return diagnosis;
    diagnosis.summary +=
        fmt::format("; the error is {:.1f} times that of one device in {}",
                    kNoise * comparison.largest_excess(), name_of(options_.precision));
    return diagnosis;
  }

  // Whether all gradients of the step that differ are the right ones times one factor. One element
  // alone is always a multiple.
  [[nodiscard]] std::optional<Diagnosis> judge_scale(const ShownTensor& tensor,
                                                     const Comparison& comparison) const {
    const double factor = factor_of(tensor.values(), comparison);
    if (!is_multiple(tensor.values(), comparison, factor)) return std::nullopt;
    int of_factor = 0;
    int all = 0;
    std::ptrdiff_t elements = 0;
    for (const ShownTensor& other : table_.tensors()) {
      const ShownTensor* wanted = exact_.find(other, other.step);
      if (other.what != Shown::gradient || other.step != tensor.step || wanted == nullptr) continue;
      ++all;
      if (other.whole() != wanted->whole()) return std::nullopt;
      const Comparison its = compare(other, *wanted);
      if (its.all_right()) continue;
      if (!is_multiple(other.values(), its, factor)) return std::nullopt;
      ++of_factor;
      elements += std::ranges::count_if(its.wanted(), [](double value) { return value != 0.0; });
    }
    if (elements < 2) return std::nullopt;
    const std::string owner = owner_of_factor(factor, shown_.groups());
    const bool is_sign = std::abs(factor + 1.0) < kFactorOfSign;
    const std::string what =
        is_sign ? "has the opposite sign of that of one device"
                : fmt::format("is {} times that of one device{}", words_of_factor(factor),
                              owner.empty() ? "" : " (" + owner + ")");
    return begin_diagnosis(
        "GRAD_SCALE", tensor,
        fmt::format("{}; so {} {} of {} gradients", what, is_sign ? "have" : "are", of_factor, all),
        {comparison.wrong_side()}, is_sign ? "" : hint_of_factor(factor, !owner.empty()));
  }

  // Whether values are the reference's of the step before: now, or in the next step that is shown.
  [[nodiscard]] bool is_stale(const ShownTensor& tensor, const Comparison& comparison) const {
    const auto equals = [&](const ShownTensor& mine, const ShownTensor* before) {
      if (before == nullptr || before->whole() != mine.whole()) return false;
      const std::vector<double> a = mine.values();
      const std::vector<double> b = before->values();
      return std::equal(a.begin(), a.end(), b.begin(),
                        [&](double x, double y) { return comparison.close(x, y); });
    };
    if (equals(tensor, exact_.find(tensor, tensor.step - 1))) return true;
    const ShownTensor* next = table_.find(tensor, tensor.step + 1);
    return next != nullptr && equals(*next, exact_.find(tensor, tensor.step));
  }

  static Diagnosis explain_stale(const ShownTensor& tensor, const Comparison& comparison) {
    return begin_diagnosis("PARAM_STALE", tensor,
                           fmt::format("is that of the step before: version {}", tensor.step - 1),
                           {comparison.wrong_side()},
                           "gather weights after the update of their shards, not before");
  }

  const ShownState& shown_;
  const JudgeOptions& options_;
  ShownTable table_;
  ShownTable reference_;
  ShownTable exact_;
};

}  // namespace

std::optional<Diagnosis> judge(const ShownState& shown, const ShownState& reference,
                               const JudgeOptions& options) {
  if (shown.pieces().empty() && reference.pieces().empty()) return std::nullopt;
  return Judge(shown, reference, options).verdict();
}

}  // namespace shardsim

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/dtype.hpp"

#include "sim/harness/rounding_error.hpp"
#include "sim/harness/shown_state.hpp"

namespace shardsim {

namespace {

// Below fp64, noise of up to this many times the reference's own error needs no further look.
constexpr double kNoise = 10.0;
// The accuracy that tells a factor from 1 and from another factor.
constexpr double kFactor = 1e-6;

// --- Values ------------------------------------------------------------------------------------

bool is_multiple(const std::vector<double>& values, const Comparison& comparison, double factor) {
  const double stretch = std::max(1.0, std::abs(factor));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double wanted = factor * comparison.wanted()[i];
    if (!comparison.close(values[i] / stretch, wanted / stretch)) return false;
  }
  return true;
}

// The factor by which `values` are `wanted`, if there is one; else 0.
double factor_of(const std::vector<double>& values, const Comparison& comparison) {
  double above = 0.0;
  double below = 0.0;
  const std::vector<double>& wanted = comparison.wanted();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    above += values[i] * wanted[i];
    below += wanted[i] * wanted[i];
  }
  if (below == 0.0 || above == 0.0) return 0.0;
  const double factor = above / below;
  return is_multiple(values, comparison, factor) ? factor : 0.0;
}

// "the size of world, or of dp".
std::string owner_of(double factor, const ShownState& shown) {
  std::set<std::string> names;
  for (const auto& [name, size] : shown.groups()) {
    if (size == 1) continue;
    const bool fits =
        std::abs(factor - size) < kFactor * size || std::abs(factor * size - 1.0) < kFactor;
    if (fits) names.insert(name);
  }
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "the size of " : ", or of ") + name;
  return text;
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
    const bool of_model = tensor.what == Shown::gradient || tensor.what == Shown::parameter ||
                          tensor.what == Shown::optimizer_state;
    if (of_model && diverge(tensor, comparison)) return explain_divergence(tensor, comparison);
    if (tensor.what == Shown::gradient) {
      std::optional<Diagnosis> scaled = judge_scale(tensor, comparison);
      if (scaled) return with_ratio(*std::move(scaled), comparison);
    }
    if (tensor.what == Shown::parameter && is_stale(tensor, comparison)) {
      return explain_stale(tensor, comparison);
    }
    Diagnosis diagnosis =
        begin_diagnosis(row_of(tensor.what).code, tensor, "differs from that of one device",
                        {comparison.wrong_side()}, row_of(tensor.what).hint);
    if (comparison.are_parts_of_sum()) {
      diagnosis.hint = "the ranks hold parts of a sum: the reduction over them is missing";
    } else if (tensor.what == Shown::gradient && shown_.shares_differ()) {
      diagnosis.hint =
          "ranks have different parts of the batch: weight each by its tokens, a mean of means is "
          "not the mean";
    }
    return with_ratio(std::move(diagnosis), comparison);
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
    if (factor == 0.0) return std::nullopt;
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
    const std::string owner = owner_of(factor, shown_);
    return begin_diagnosis(
        "GRAD_SCALE", tensor,
        fmt::format("is {:.3f} times that of one device{}; so are {} of {} gradients", factor,
                    owner.empty() ? "" : " (" + owner + ")", of_factor, all),
        {comparison.wrong_side()},
        factor > 1.0 ? "a sum is not divided, or made twice"
                     : "a mean is taken twice, or over too many");
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

#include <array>
#include <cmath>
#include <string>

#include <fmt/format.h>

#include "sim/kernel/metric_rows.hpp"

#include "reports/units.hpp"
#include "sim/diff/comparison.hpp"
#include "sim/diff/run_side.hpp"

// The differences that make two runs different tasks, not two ways to do one, in words. A log has a
// step time of any run: compared with another model, it says nothing.
namespace shardsim {

namespace {

struct Trait {
  const char* path;
  const char* before;
  const char* after;
};

constexpr std::array kShape = {
    Trait{"model.num_layers", "", " layers"},
    Trait{"model.hidden_size", "hidden size ", ""},
    Trait{"model.num_attention_heads", "", " heads"},
    Trait{"model.num_query_groups", "", " query groups"},
};
constexpr Trait kMlp = {"model.ffn_hidden_size", "MLP width ", ""};
constexpr Trait kExperts = {"model.num_experts", "", " experts"};
constexpr Trait kFamily = {"model.family", "", ""};
constexpr Trait kSeqLen = {"model.seq_len", "sequence length ", ""};
// Fields that only scenarios have.
constexpr std::array kRest = {
    Trait{"model.num_experts_per_token", "", " experts per token"},
    Trait{"model.moe_ffn_hidden_size", "width of experts ", ""},
    Trait{"model.vocab_size", "vocabulary ", ""},
    kSeqLen,
};
constexpr Trait kSequences = {"training.global_batch_size", "", " sequences"};
constexpr Trait kGpus = {"system.ranks", "", ""};

std::string value_of(const RunSide& side, const Trait& trait) {
  const auto field = side.fields.find(trait.path);
  return field == side.fields.end() ? "" : field->second;
}

bool told(const RunSide& a, const RunSide& b, const Trait& trait) {
  return !value_of(a, trait).empty() && !value_of(b, trait).empty();
}

// "56 layers instead of 32"; empty if it is equal or unknown.
std::string change_of(const RunSide& a, const RunSide& b, const Trait& trait) {
  if (!told(a, b, trait) || value_of(a, trait) == value_of(b, trait)) return "";
  return fmt::format("{}{}{} instead of {}", trait.before, value_of(b, trait), trait.after,
                     value_of(a, trait));
}

std::string experts_change(const RunSide& a, const RunSide& b) {
  const std::string of_a = value_of(a, kExperts);
  const std::string of_b = value_of(b, kExperts);
  if (of_a == of_b) return "";
  return fmt::format("{} experts instead of {}", of_b.empty() ? "no" : of_b,
                     of_a.empty() ? "none" : of_a);
}

// Appends a text that is not empty to a list.
void append(std::string& list, const std::string& text, const char* between) {
  if (!text.empty()) list += (list.empty() ? "" : between) + text;
}

// "56 layers instead of 32, hidden size 6144 instead of 4096": the model's fields in a log.
std::string shape_change(const RunSide& a, const RunSide& b) {
  std::string changes;
  for (const Trait& trait : kShape) append(changes, change_of(a, b, trait), ", ");
  const bool dense = value_of(a, kExperts).empty() && value_of(b, kExperts).empty();
  // A model with experts may have no dense layers, so the width of these does not describe it.
  append(changes, dense ? change_of(a, b, kMlp) : experts_change(a, b), ", ");
  return changes;
}

// The same for scenarios, which have all fields: family, vocabulary and sequence length, too.
std::string model_change(const RunSide& a, const RunSide& b) {
  std::string changes = change_of(a, b, kFamily);
  append(changes, shape_change(a, b), ", ");
  for (const Trait& trait : kRest) append(changes, change_of(a, b, trait), ", ");
  return changes;
}

// "64 sequences instead of 32, sequence length 4096 instead of 2048".
std::string batch_change(const RunSide& a, const RunSide& b) {
  std::string changes = change_of(a, b, kSequences);
  append(changes, change_of(a, b, kSeqLen), ", ");
  return changes;
}

// "16 instead of 8".
std::string gpus_change(const RunSide& a, const RunSide& b) { return change_of(a, b, kGpus); }

// Whether both describe their model well enough to call it the same.
bool both_tell_shape(const RunSide& a, const RunSide& b) {
  return told(a, b, kShape[0]) && told(a, b, kShape[1]);
}

bool both_tell_gpus(const RunSide& a, const RunSide& b) { return told(a, b, kGpus); }

constexpr double kPercentOfAll = 100.0;
// From here on a factor reads better than percents.
constexpr double kTwice = 2.0;
// Below this two decimals are too few.
constexpr double kTenth = 0.1;
// Smaller percents get a second decimal.
constexpr double kOnePercent = 1.0;
constexpr const char* kSame = "the same";

StepWork work_of(const RunSide& side) {
  const auto all = side.metrics.find(metric::kTokensPerS.name);
  const auto per_gpu = side.metrics.find(metric::kTokensPerSPerGpu.name);
  if (all == side.metrics.end() || per_gpu == side.metrics.end()) return {};
  if (!(all->second > 0.0) || !(per_gpu->second > 0.0)) return {};
  return {.tokens = std::llround(all->second * seconds_of(side.step_ps)),
          .gpus = std::llround(all->second / per_gpu->second),
          .tokens_per_s = all->second};
}

// "0.05 % more", "2.10 times the", "the same": words before the quantity that has the factor.
std::string factor_words(double factor) {
  if (factor < kTenth) return fmt::format("{} times the", format_number(factor));
  if (factor >= kTwice || factor <= 1.0 / kTwice) return fmt::format("{:.2f} times the", factor);
  const double percent = std::abs(factor - 1.0) * kPercentOfAll;
  const std::string number =
      percent < kOnePercent ? fmt::format("{:.2f}", percent) : fmt::format("{:.1f}", percent);
  if (number == "0.00") return kSame;
  return fmt::format("{} % {}", number, factor > 1.0 ? "more" : "fewer");
}

std::string step_words(const RunSide& a, const RunSide& b) {
  const std::string of_a = format_seconds(seconds_of(a.step_ps));
  const std::string of_b = format_seconds(seconds_of(b.step_ps));
  if (of_a == of_b) return fmt::format("step takes {} as A's does", of_b);
  return fmt::format("step takes {} instead of {}", of_b, of_a);
}

double factor_of(double a, double b) { return b / a; }

}  // namespace

std::optional<WorkChange> work_change(const RunSide& a, const RunSide& b) {
  if (a.is_measured() || b.is_measured()) return std::nullopt;
  WorkChange change{.model = model_change(a, b), .a = work_of(a), .b = work_of(b)};
  if (!change.a.is_told() || !change.b.is_told()) change.a = change.b = {};
  const bool same = change.a.tokens == change.b.tokens && change.a.gpus == change.b.gpus;
  if (same && change.model.empty()) return std::nullopt;
  return change;
}

bool is_same_rate(const WorkChange& change) {
  return change.a.is_told() &&
         factor_words(factor_of(change.a.per_gpu(), change.b.per_gpu())) == kSame;
}

std::string work_words(const WorkChange& change, const RunSide& a, const RunSide& b) {
  std::string words =
      change.model.empty() ? "B's " : fmt::format("B is another model ({}): its ", change.model);
  words += step_words(a, b);
  if (!change.a.is_told()) return words;
  const StepWork& of_a = change.a;
  const StepWork& of_b = change.b;
  const bool other_gpus = of_a.gpus != of_b.gpus;
  if (other_gpus) {
    words +=
        fmt::format(", on {} instead of {} GPUs", format_count(of_b.gpus), format_count(of_a.gpus));
  }
  if (of_a.tokens != of_b.tokens) {
    const double factor =
        factor_of(static_cast<double>(of_a.tokens), static_cast<double>(of_b.tokens));
    words += fmt::format("{} for {} tokens", other_gpus ? " and" : ",", factor_words(factor));
  }
  words += fmt::format("{} {} tokens/s per GPU", change.model.empty() ? ":" : ", with",
                       factor_words(factor_of(of_a.per_gpu(), of_b.per_gpu())));
  if (other_gpus) {
    words += fmt::format(" and {} tokens/s in all",
                         factor_words(factor_of(of_a.tokens_per_s, of_b.tokens_per_s)));
  }
  return words;
}

std::string unlike_words(const RunSide& a, const RunSide& b) {
  if (a.kind != SideKind::megatron_log && b.kind != SideKind::megatron_log) return "";
  const bool tells_model = both_tell_shape(a, b);
  const bool tells_gpus = both_tell_gpus(a, b);
  std::string words;
  if (tells_model) {
    const std::string model = shape_change(a, b);
    if (!model.empty()) append(words, "it is not the same model: " + model, "; ");
  }
  const std::string gpus = gpus_change(a, b);
  if (!gpus.empty()) append(words, "it is not on as many GPUs: " + gpus, "; ");
  const std::string batch = batch_change(a, b);
  if (!batch.empty()) append(words, "it is not the same batch: " + batch, "; ");
  if (tells_model && tells_gpus) return words;
  const char* const untold = tells_model  ? "it ran on as many GPUs"
                             : tells_gpus ? "it was the same model"
                                          : "it was the same model on as many GPUs";
  append(words, fmt::format("it is not told whether {}", untold), "; ");
  return words;
}

}  // namespace shardsim

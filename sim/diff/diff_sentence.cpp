#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "sim/kernel/metric_rows.hpp"
#include "sim/kernel/text.hpp"

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
    Trait{"model.head_dim", "heads of ", ""},
    Trait{"model.value_head_dim", "values of ", ""},
    Trait{"model.kv_lora_rank", "latent of keys and values ", ""},
    Trait{"model.q_lora_rank", "latent of queries ", ""},
    Trait{"model.qk_rope_head_dim", "elements of keys that heads share ", ""},
    Trait{"model.rotary_dim", "rotary elements ", ""},
    Trait{"model.query_key_norm", "norm of queries and keys ", ""},
    Trait{"model.query_key_value_bias", "biases of queries, keys and values ", ""},
    Trait{"model.attention_out_bias", "bias of attention's output ", ""},
    Trait{"model.attention_output_gate", "gate of attention's output ", ""},
    Trait{"model.attention_head_gate", "gate of each head ", ""},
    Trait{"model.value_norm", "norm of values ", ""},
    Trait{"model.activation", "activation ", ""},
    Trait{"model.norm_placement", "norm placement ", ""},
    Trait{"model.parallel_block", "parallel block ", ""},
    Trait{"model.linear_num_value_heads", "", " value heads of DeltaNet"},
    Trait{"model.mamba_num_heads", "", " heads of Mamba"},
};
constexpr Trait kMlp = {"model.ffn_hidden_size", "MLP width ", ""};
constexpr Trait kExperts = {"model.num_experts", "", " experts"};
constexpr Trait kFamily = {"model.family", "", ""};
constexpr Trait kSeqLen = {"model.seq_len", "sequence length ", ""};
// Fields that only scenarios have.
constexpr std::array kRest = {
    Trait{"model.num_experts_per_token", "", " experts per token"},
    Trait{"model.moe_ffn_hidden_size", "width of experts ", ""},
    Trait{"model.moe_latent_size", "latents of experts ", ""},
    Trait{"model.moe_shared_ffn_hidden_size", "width of the shared expert ", ""},
    Trait{"model.moe_router_score", "router scores ", ""},
    Trait{"model.mlp_gate_scale", "factor of the MLP's gate ", ""},
    Trait{"model.mlp_output_scale", "factor of the MLP's output ", ""},
    Trait{"model.mamba_z_scale", "factor of Mamba's z ", ""},
    Trait{"model.mamba_x_scale", "factor of Mamba's x ", ""},
    Trait{"model.mamba_b_scale", "factor of Mamba's B ", ""},
    Trait{"model.mamba_c_scale", "factor of Mamba's C ", ""},
    Trait{"model.mamba_dt_scale", "factor of Mamba's dt ", ""},
    Trait{"model.mamba_output_scale", "factor of Mamba's output ", ""},
    Trait{"model.vocab_size", "vocabulary ", ""},
    kSeqLen,
};
constexpr Trait kSequences = {"training.global_batch_size", "", " sequences"};
constexpr Trait kGpus = {"system.ranks", "", ""};

bool told(const RunSide& a, const RunSide& b, const Trait& trait) {
  return !a.field(trait.path).empty() && !b.field(trait.path).empty();
}

// "56 layers instead of 32"; empty if it is equal or unknown.
std::string change_of(const RunSide& a, const RunSide& b, const Trait& trait) {
  const std::string of_b = b.field(trait.path);
  if (!told(a, b, trait) || a.field(trait.path) == of_b) return "";
  return fmt::format("{}{}{} instead of {}", trait.before, of_b, trait.after, a.field(trait.path));
}

std::string experts_change(const RunSide& a, const RunSide& b) {
  const std::string of_a = a.field(kExperts.path);
  const std::string of_b = b.field(kExperts.path);
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
  const bool dense = a.field(kExperts.path).empty() && b.field(kExperts.path).empty();
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

// "tp 2 instead of 1": degrees and schedule, where both sides tell them.
std::string layout_change(const RunSide& a, const RunSide& b) {
  constexpr std::string_view kSection = "parallelism.";
  std::string changes;
  for (const auto& [path, value] : a.fields) {
    if (!path.starts_with(kSection)) continue;
    const std::string name = path.substr(kSection.size()) + " ";
    append(changes, change_of(a, b, {path.c_str(), name.c_str(), ""}), ", ");
  }
  return changes;
}

// "64 sequences instead of 32, sequence length 4096 instead of 2048".
std::string batch_change(const RunSide& a, const RunSide& b) {
  std::string changes = change_of(a, b, kSequences);
  append(changes, change_of(a, b, kSeqLen), ", ");
  return changes;
}

// From here on a factor reads better than percents.
constexpr double kTwice = 2.0;
// Below this two decimals are too few.
constexpr double kTenth = 0.1;
// Smaller percents get a second decimal.
constexpr double kOnePercent = 1.0;
constexpr const char* kSame = "the same";

StepWork work_of(const RunSide& side) {
  const double all = side.metric(metric::kTokensPerS.name).value_or(0.0);
  const double per_gpu = side.metric(metric::kTokensPerSPerGpu.name).value_or(0.0);
  if (!(all > 0.0) || !(per_gpu > 0.0)) return {};
  return {.tokens = std::llround(all * seconds_of(side.step_ps)),
          .gpus = std::llround(all / per_gpu),
          .tokens_per_s = all};
}

// "0.05 % more", "2.10 times the", "the same": words before the quantity that has the factor.
std::string factor_words(double factor) {
  if (factor < kTenth) return fmt::format("{} times the", format_number(factor));
  if (factor >= kTwice || factor <= 1.0 / kTwice) return fmt::format("{:.2f} times the", factor);
  const double percent = std::abs(factor - 1.0) * kPercent;
  const std::string number =
      percent < kOnePercent ? fmt::format("{:.2f}", percent) : fmt::format("{:.1f}", percent);
  if (number == "0.00") return kSame;
  return fmt::format("{} % {}", number, factor > 1.0 ? "more" : "fewer");
}

// Whether tokens/s per GPU read as the same.
bool is_same_rate(const WorkChange& change) {
  return change.a.is_told() && factor_words(change.b.per_gpu() / change.a.per_gpu()) == kSame;
}

std::string step_words(const RunSide& a, const RunSide& b) {
  const std::string of_a = format_seconds(seconds_of(a.step_ps));
  const std::string of_b = format_seconds(seconds_of(b.step_ps));
  if (of_a == of_b) return fmt::format("step takes {} as A's does", of_b);
  return fmt::format("step takes {} instead of {}", of_b, of_a);
}

// "B's step takes 3.25 s instead of 1.63 s, for 2.00 times the tokens: 0.05 % more tokens/s per
// GPU".
std::string work_words(const WorkChange& change, const RunSide& a, const RunSide& b) {
  std::string words = change.model.empty()
                          ? b.letter + "'s "
                          : fmt::format("{} is another model ({}): its ", b.letter, change.model);
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
    const double factor = static_cast<double>(of_b.tokens) / static_cast<double>(of_a.tokens);
    words += fmt::format("{} for {} tokens", other_gpus ? " and" : ",", factor_words(factor));
  }
  words += fmt::format("{} {} tokens/s per GPU", change.model.empty() ? ":" : ", with",
                       factor_words(of_b.per_gpu() / of_a.per_gpu()));
  if (other_gpus) {
    words +=
        fmt::format(" and {} tokens/s in all", factor_words(of_b.tokens_per_s / of_a.tokens_per_s));
  }
  return words;
}

// "; B's goodput is 97.10 % instead of 99.53 %"; empty if it is equal or unknown.
std::string goodput_words(const std::vector<Outcome>& outcomes, const std::string& letter) {
  const auto goodput = std::ranges::find(outcomes, metric::kGoodputFraction.name, &Outcome::metric);
  if (goodput == outcomes.end()) return "";
  const auto text_of = [](const std::optional<double>& share) {
    return share ? fmt::format("{:.2f} %", kPercent * *share) : "";
  };
  const std::string a = text_of(goodput->a);
  const std::string b = text_of(goodput->b);
  if (a == b) return "";
  if (a.empty()) {
    return fmt::format("; {}'s goodput is {}, and A has no failures", letter, b);
  }
  if (b.empty()) {
    return fmt::format("; {} has no failures, and A's goodput is {}", letter, a);
  }
  return fmt::format("; {}'s goodput is {} instead of {}", letter, b, a);
}

// Below this a factor is shown in percents.
constexpr double kLeastFactor = 1.01;
// A smaller share of memory is not worth a word.
constexpr double kLeastShare = 0.001;

std::string subject_of(const RunSide& side) {
  return side.is_measured() ? "the measured run" : side.letter;
}

std::string capitalized(std::string text) {
  if (!text.empty() && text.front() == 't') text.front() = 'T';
  return text;
}

std::string how_much(double factor, bool faster) {
  const char* const word = faster ? "faster" : "slower";
  if (factor < kLeastFactor) return fmt::format("{:.2f} % {}", (factor - 1.0) * 100.0, word);
  return fmt::format("{:.2f} times {}", factor, word);
}

std::string time_words(const RunComparison& comparison) {
  const DiffRow& step = comparison.time.total;
  const std::string a = subject_of(comparison.a);
  const std::string b = subject_of(comparison.b);
  if (step.a == step.b || step.a <= 0 || step.b <= 0) {
    return fmt::format("{} and {} take the same time ({})", capitalized(a), b,
                       format_seconds(seconds_of(step.b)));
  }
  const bool faster = step.b < step.a;
  const double factor = faster ? static_cast<double>(step.a) / static_cast<double>(step.b)
                               : static_cast<double>(step.b) / static_cast<double>(step.a);
  const std::string words =
      fmt::format("{} is {} ({} instead of {})", capitalized(b), how_much(factor, faster),
                  format_seconds(seconds_of(step.b)), format_seconds(seconds_of(step.a)));
  return words + reason_words(comparison.time);
}

std::string memory_words(const DiffTable& memory, const std::string& subject) {
  const std::int64_t difference = memory.total.difference();
  const double share = std::abs(static_cast<double>(difference)) /
                       std::max(1.0, static_cast<double>(memory.total.a));
  if (share < kLeastShare) return "";
  std::string words = fmt::format("; {} needs {} {} memory", subject,
                                  format_memory(std::abs(static_cast<double>(difference))),
                                  difference < 0 ? "less" : "more");
  const DiffRow* reason = main_reason(memory);
  if (reason != nullptr && reason->name != kOtherPart) {
    words += fmt::format(", mostly {} ({}{})", reason->name, reason->difference() < 0 ? "-" : "+",
                         format_memory(std::abs(static_cast<double>(reason->difference()))));
  }
  return words;
}

// Predictions tend to err one way: a band of measurements may not contain its own prediction.
bool leaves_itself_out(const RunSide& side) {
  return !side.is_measured() && side.band && !holds(side.band, side.step_ps);
}

// For a measurement: its place relative to the prediction.
std::string band_words(const RunComparison& comparison) {
  const RunSide& predicted = comparison.a.is_measured() ? comparison.b : comparison.a;
  if (comparison.verdict == BandVerdict::no_band || !predicted.band) return "";
  const char* const where = comparison.verdict == BandVerdict::within_band ? "within" : "outside";
  const std::string low = format_seconds(predicted.band->low_s);
  const std::string high = format_seconds(predicted.band->high_s);
  if (leaves_itself_out(predicted)) {
    return fmt::format(", {} the range of measured runs like it: {} to {}", where, low, high);
  }
  return fmt::format(", {} the prediction's error band ({} to {})", where, low, high);
}

// For two predictions: whether a measurement could show their difference.
std::string doubt_words(const RunComparison& comparison) {
  if (comparison.verdict != BandVerdict::within_band) return "";
  const std::optional<WorkChange>& work = comparison.work;
  const DiffRow& step = comparison.time.total;
  const bool same = work ? is_same_rate(*work) : step.a == step.b;
  if (same) return "";
  const bool shifted = leaves_itself_out(comparison.a) || leaves_itself_out(comparison.b);
  return fmt::format(
      "; the {} are within {}, so a measurement may not tell them apart",
      work ? "rates per GPU" : "times",
      shifted ? "the ranges of measured runs like each other's plan" : "each other's error band");
}

// "; B does not fit: ...", for each side that does not.
std::string fit_words(const RunComparison& comparison) {
  std::string words;
  for (const RunSide* const side : {&comparison.a, &comparison.b}) {
    if (side->fits.value_or(true)) continue;
    words += fmt::format("; {} {}", subject_of(*side), does_not_fit_words(*side));
  }
  return words;
}

}  // namespace

double device_bytes_of(const RunSide& side) {
  constexpr double kGib = 0x1p30;
  return parse_number<double>(side.field("system.device.memory_gib")).value_or(0) * kGib;
}

std::string does_not_fit_words(const RunSide& side) {
  const std::optional<double> needed = side.metric(metric::kMemoryDeviceBytesMax.name);
  const double device = device_bytes_of(side);
  if (!needed || device <= 0.0) return "does not fit";
  return fmt::format("does not fit: it needs {} on the fullest GPU, which has {}",
                     format_memory(*needed), format_memory(device));
}

std::optional<WorkChange> work_change(const RunSide& a, const RunSide& b) {
  if (a.is_measured() || b.is_measured()) return std::nullopt;
  WorkChange change{.model = model_change(a, b), .a = work_of(a), .b = work_of(b)};
  if (!change.a.is_told() || !change.b.is_told()) change.a = change.b = {};
  const bool same = change.a.tokens == change.b.tokens && change.a.gpus == change.b.gpus;
  if (same && change.model.empty()) return std::nullopt;
  return change;
}

std::string different_trainings(const RunComparison& comparison) {
  if (!comparison.work) return "";
  std::string changes = model_change(comparison.a, comparison.b);
  append(changes, change_of(comparison.a, comparison.b, kSequences), ", ");
  return changes;
}

std::string unlike_words(const RunSide& a, const RunSide& b) {
  if (a.kind != SideKind::megatron_log && b.kind != SideKind::megatron_log) return "";
  // Whether both describe their model well enough to call it the same.
  const bool tells_model = told(a, b, kShape[0]) && told(a, b, kShape[1]);
  const bool tells_gpus = told(a, b, kGpus);
  std::string words;
  const auto add = [&words](const char* what, const std::string& change) {
    if (!change.empty()) append(words, what + change, "; ");
  };
  if (tells_model) add("it is not the same model: ", shape_change(a, b));
  add("it is not on as many GPUs: ", change_of(a, b, kGpus));
  add("it is not the same batch: ", batch_change(a, b));
  add("it is not the same layout: ", layout_change(a, b));
  if (tells_model && tells_gpus) return words;
  const char* const untold = tells_model  ? "it ran on as many GPUs"
                             : tells_gpus ? "it was the same model"
                                          : "it was the same model on as many GPUs";
  append(words, fmt::format("it is unknown whether {}", untold), "; ");
  return words;
}

std::string sentence_of(const RunComparison& comparison) {
  const bool measured = comparison.a.is_measured() || comparison.b.is_measured();
  std::string words = comparison.work ? work_words(*comparison.work, comparison.a, comparison.b)
                                      : time_words(comparison);
  if (!comparison.unlike.empty()) {
    words += ", but " + comparison.unlike;
  } else if (measured) {
    words += band_words(comparison);
  }
  const std::string goodput =
      measured ? "" : goodput_words(comparison.outcomes, comparison.b.letter);
  words += goodput;
  if (comparison.memory)
    words += memory_words(*comparison.memory, goodput.empty() ? "it" : comparison.b.letter);
  if (!measured) words += doubt_words(comparison);
  words += fit_words(comparison);
  return words + ".";
}

}  // namespace shardsim

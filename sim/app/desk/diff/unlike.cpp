#include <array>

#include <fmt/format.h>

#include "sim/app/desk/diff/comparison.hpp"

// A log tells a step time of whatever ran: held against another model, it says nothing.
namespace shardsim {

namespace {

struct Trait {
  const char* path;
  const char* before;
  const char* after;
};

constexpr std::array kModel = {
    Trait{"model.num_layers", "", " layers"},
    Trait{"model.hidden_size", "hidden size ", ""},
    Trait{"model.num_attention_heads", "", " heads"},
    Trait{"model.num_query_groups", "", " query groups"},
};
constexpr Trait kMlp = {"model.ffn_hidden_size", "MLP width ", ""};
constexpr Trait kExperts = {"model.num_experts", "", " experts"};
constexpr std::array kBatch = {
    Trait{"training.global_batch_size", "", " sequences"},
    Trait{"model.seq_len", "sequence length ", ""},
};
constexpr Trait kGpus = {"system.ranks", "", ""};

std::string value_of(const RunSide& side, const Trait& trait) {
  const auto field = side.fields.find(trait.path);
  return field == side.fields.end() ? "" : field->second;
}

bool told(const RunSide& a, const RunSide& b, const Trait& trait) {
  return !value_of(a, trait).empty() && !value_of(b, trait).empty();
}

// "56 layers instead of 32"; empty where it is the same or not told.
std::string change_of(const RunSide& a, const RunSide& b, const Trait& trait) {
  if (!told(a, b, trait) || value_of(a, trait) == value_of(b, trait)) return "";
  return fmt::format("{}{}{} instead of {}", trait.before, value_of(b, trait), trait.after,
                     value_of(a, trait));
}

void append(std::string& list, const std::string& text, const char* between) {
  if (!text.empty()) list += (list.empty() ? "" : between) + text;
}

std::string experts_change(const RunSide& a, const RunSide& b) {
  const std::string of_a = value_of(a, kExperts);
  const std::string of_b = value_of(b, kExperts);
  if (of_a == of_b) return "";
  return fmt::format("{} experts instead of {}", of_b.empty() ? "no" : of_b,
                     of_a.empty() ? "none" : of_a);
}

std::string model_change(const RunSide& a, const RunSide& b) {
  std::string changes;
  for (const Trait& trait : kModel) append(changes, change_of(a, b, trait), ", ");
  const bool dense = value_of(a, kExperts).empty() && value_of(b, kExperts).empty();
  // Of a model of experts it is the width of layers that there may be none of.
  append(changes, dense ? change_of(a, b, kMlp) : experts_change(a, b), ", ");
  return changes;
}

}  // namespace

std::string unlike_words(const RunSide& a, const RunSide& b) {
  if (a.kind != SideKind::megatron_log && b.kind != SideKind::megatron_log) return "";
  const bool tells_model = told(a, b, kModel[0]) && told(a, b, kModel[1]);
  const bool tells_gpus = told(a, b, kGpus);
  std::string words;
  if (tells_model) {
    const std::string model = model_change(a, b);
    if (!model.empty()) append(words, "it is not the same model: " + model, "; ");
  }
  const std::string gpus = change_of(a, b, kGpus);
  if (!gpus.empty()) append(words, "it is not on as many GPUs: " + gpus, "; ");
  std::string batch;
  for (const Trait& trait : kBatch) append(batch, change_of(a, b, trait), ", ");
  if (!batch.empty()) append(words, "it is not the same batch: " + batch, "; ");
  if (tells_model && tells_gpus) return words;
  const char* const untold = tells_model  ? "it ran on as many GPUs"
                             : tells_gpus ? "it was the same model"
                                          : "it was the same model on as many GPUs";
  append(words, fmt::format("it is not told whether {}", untold), "; ");
  return words;
}

}  // namespace shardsim

#include "sim/diff/traits.hpp"

#include <array>

#include <fmt/format.h>

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

}  // namespace

void append(std::string& list, const std::string& text, const char* between) {
  if (!text.empty()) list += (list.empty() ? "" : between) + text;
}

std::string shape_change(const RunSide& a, const RunSide& b) {
  std::string changes;
  for (const Trait& trait : kShape) append(changes, change_of(a, b, trait), ", ");
  const bool dense = value_of(a, kExperts).empty() && value_of(b, kExperts).empty();
  // A model with experts may have no dense layers, so the width of these does not describe it.
  append(changes, dense ? change_of(a, b, kMlp) : experts_change(a, b), ", ");
  return changes;
}

std::string model_change(const RunSide& a, const RunSide& b) {
  std::string changes = change_of(a, b, kFamily);
  append(changes, shape_change(a, b), ", ");
  for (const Trait& trait : kRest) append(changes, change_of(a, b, trait), ", ");
  return changes;
}

std::string batch_change(const RunSide& a, const RunSide& b) {
  std::string changes = change_of(a, b, kSequences);
  append(changes, change_of(a, b, kSeqLen), ", ");
  return changes;
}

std::string gpus_change(const RunSide& a, const RunSide& b) { return change_of(a, b, kGpus); }

bool both_tell_shape(const RunSide& a, const RunSide& b) {
  return told(a, b, kShape[0]) && told(a, b, kShape[1]);
}

bool both_tell_gpus(const RunSide& a, const RunSide& b) { return told(a, b, kGpus); }

}  // namespace shardsim

#include "sim/diff/megatron_fields.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "scenarios/formats/megatron_arguments.hpp"

namespace shardsim {

namespace {

constexpr const char* kBegin = "--- arguments ---";
constexpr const char* kEnd = "--- end of arguments ---";

constexpr std::array<std::pair<const char*, const char*>, 13> kTold = {
    {{"num_layers", "model.num_layers"},
     {"hidden_size", "model.hidden_size"},
     {"ffn_hidden_size", "model.ffn_hidden_size"},
     {"num_attention_heads", "model.num_attention_heads"},
     {"num_experts", "model.num_experts"},
     {"seq_length", "model.seq_len"},
     {"world_size", "system.ranks"},
     {"tensor_model_parallel_size", "parallelism.tp"},
     {"pipeline_model_parallel_size", "parallelism.pp"},
     {"context_parallel_size", "parallelism.cp"},
     {"expert_model_parallel_size", "parallelism.ep"},
     {"micro_batch_size", "training.micro_batch_size"},
     {"global_batch_size", "training.global_batch_size"}}};

bool is_whole_number(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char character) {
    return std::isdigit(character) != 0;
  });
}

}  // namespace

void MegatronRunFinder::read(const std::string& line) {
  if (line.find(kBegin) != std::string::npos) {
    inside_ = true;
    next_.clear();
  }
  if (inside_) next_ += line + "\n";
  if (line.find(kEnd) != std::string::npos) inside_ = false;
}

bool MegatronRunFinder::iterates() {
  if (next_.empty()) return false;
  block_ = std::exchange(next_, {});
  inside_ = false;
  return true;
}

std::map<std::string, std::string> MegatronRunFinder::fields() const {
  std::map<std::string, std::string> fields;
  if (block_.empty()) return fields;
  const SourceText source = {"log", block_};
  MegatronArguments arguments = read_megatron_arguments(source);
  for (const auto& [name, path] : kTold) {
    const std::string value = arguments.written(name);
    if (is_whole_number(value)) fields[path] = value;
  }
  // Without groups every head has its own, whatever the number of groups.
  const std::string groups = arguments.written("num_query_groups");
  if (arguments.written("group_query_attention") == "True" && is_whole_number(groups)) {
    fields["model.num_query_groups"] = groups;
  } else if (arguments.written("group_query_attention") == "False" &&
             fields.count("model.num_attention_heads") > 0) {
    fields["model.num_query_groups"] = fields["model.num_attention_heads"];
  }
  return fields;
}

}  // namespace shardsim

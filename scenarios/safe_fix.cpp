#include "scenarios/safe_fix.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "scenarios/field.hpp"
#include "scenarios/reading.hpp"
#include "scenarios/suggest.hpp"

namespace shardsim {
namespace {

// A slip in a shorter word is ambiguous: "dp" is as near to "pp" as to "tp".
constexpr std::size_t kShortestSlip = 4;

// Names of other programs whose values have our unit and our meaning. Many names in hints do not: a
// bucket in MB, an interleaving in layers, a flag for a level.
constexpr auto kSameQuantity = std::to_array<std::string_view>({
    "adam_beta1",
    "adam_beta2",
    "adam_eps",
    "autotp_size",
    "clip_grad",
    "communication_data_type",
    "context_parallel_degree",
    "context_parallel_size",
    "d_model",
    "data_parallel_replicate_degree",
    "data_parallel_shard_degree",
    "dim",
    "dtype",
    "enable_sequence_parallel",
    "eps",
    "expert_model_parallel_size",
    "expert_parallel_degree",
    "first_k_dense_replace",
    "fsdp_reshard_after_forward",
    "gradient_accumulation_steps",
    "gradient_clipping",
    "growth_interval",
    "hysteresis",
    "init_scale",
    "initial_loss_scale",
    "intermediate_size",
    "layer_norm_epsilon",
    "layernorm_epsilon",
    "loss_scale_window",
    "lr",
    "mixed_precision_param",
    "mixed_precision_reduce",
    "model_type",
    "moe_expert_capacity_factor",
    "moe_intermediate_size",
    "moe_router_topk",
    "n_ctx",
    "n_embd",
    "n_head",
    "n_heads",
    "n_inner",
    "n_kv_heads",
    "n_layer",
    "n_layers",
    "n_positions",
    "n_routed_experts",
    "n_shared_experts",
    "nnodes",
    "norm_eps",
    "nproc_per_node",
    "num_distributed_optimizer_instances",
    "num_experts_per_tok",
    "num_hidden_layers",
    "num_key_value_heads",
    "num_local_experts",
    "num_moe_experts",
    "num_nodes",
    "num_virtual_stages_per_pipeline_rank",
    "overlap_comm",
    "pipeline_model_parallel_size",
    "pipeline_parallel_degree",
    "pipeline_parallel_schedule",
    "reduce_dtype",
    "rms_norm_eps",
    "rotary_base",
    "seq_length",
    "sequence_length",
    "sgd_momentum",
    "tensor_model_parallel_size",
    "tensor_parallel_degree",
    "tie_word_embeddings",
    "top_k",
    "torch_dtype",
    "train_batch_size",
    "train_iters",
    "train_micro_batch_size_per_gpu",
    "virtual_pipeline_model_parallel_size",
    "wd",
});

struct Synonym {
  std::string_view theirs;
  std::string_view ours;
};
constexpr std::array kChoiceSynonyms = {
    Synonym{"bfloat16", "bf16"},      Synonym{"float16", "fp16"},
    Synonym{"half", "fp16"},          Synonym{"float32", "fp32"},
    Synonym{"float64", "fp64"},       Synonym{"torch.bfloat16", "bf16"},
    Synonym{"torch.float16", "fp16"}, Synonym{"torch.float32", "fp32"},
};

std::string lower(std::string_view word) {
  std::string out(word);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::string in_quotes(const std::string& word) { return "\"" + word + "\""; }

bool is_in(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// The candidate that is near; "" if none is or several are.
std::string only_near(const std::string& word, const std::vector<std::string>& candidates) {
  if (word.size() < kShortestSlip) return "";
  const std::string near = nearest(word, candidates);
  if (near.empty()) return "";
  std::vector<std::string> others;
  std::copy_if(candidates.begin(), candidates.end(), std::back_inserter(others),
               [&](const std::string& candidate) { return candidate != near; });
  return nearest(word, others).empty() ? near : "";
}

// The word of `choices` for another program's word; "" if there is none.
std::string same_choice(const std::string& word, const std::vector<std::string>& choices) {
  std::string wanted = lower(word);
  const auto* const found =
      std::find_if(kChoiceSynonyms.begin(), kChoiceSynonyms.end(),
                   [&](const Synonym& synonym) { return synonym.theirs == wanted; });
  if (found != kChoiceSynonyms.end()) wanted = found->ours;
  return is_in(choices, wanted) ? wanted : "";
}

std::vector<std::string> fixable_keys(const std::string& section) {
  std::vector<std::string> keys;
  for (const Field& field : field_table()) {
    if (parent_path(field.path) == section) keys.push_back(last_key(field.path));
  }
  for (const Section& child : section_table()) {
    const bool inside = !child.path.empty() && parent_path(child.path) == section;
    if (inside) keys.push_back(last_key(child.path));
  }
  return keys;
}

// Our key for another program's key, in this section.
std::string same_quantity(const std::string& section, const std::string& name) {
  if (!std::binary_search(kSameQuantity.begin(), kSameQuantity.end(), name)) return "";
  for (const Field& field : field_table()) {
    if (parent_path(field.path) != section) continue;
    for (const ForeignName& foreign : field.foreign_names) {
      if (foreign.name == name) return last_key(field.path);
    }
  }
  return "";
}

// The spelling of a key, for a name written as a flag or in capitals.
std::string plain_name(const std::string& key) {
  std::string name = lower(key.substr(std::min(key.find_first_not_of('-'), key.size())));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::string our_key(const std::string& section, const std::string& key) {
  const std::string name = plain_name(key);
  const std::vector<std::string> keys = fixable_keys(section);
  if (is_in(keys, name)) return name;
  const std::string same = same_quantity(section, name);
  // A name that means something elsewhere is no slip.
  const bool foreign = hint_for_key(section, key).label.rfind("did you mean", 0) != 0;
  return !same.empty() || foreign ? same : only_near(name, keys);
}

// Whether the field takes the value as it is written, as another program writes it, or never.
std::optional<Fix> fix_of_value(const Field& field, const JsonValue& value) {
  ProblemList problems;
  bool automatic = false;
  if (read_value(field, value, "", problems, automatic).has_value() || automatic) return Fix{};
  if (problems.empty() || problems.problems().front().fix.edits.empty()) return std::nullopt;
  return problems.problems().front().fix;
}

// torchtitan's -1: all ranks that are left.
std::optional<Fix> fix_of_foreign_value(const JsonMember& member) {
  const auto* const number = std::get_if<std::int64_t>(&member.value.data);
  if (number == nullptr || *number != -1) return std::nullopt;
  if (plain_name(member.key) != "data_parallel_shard_degree") return std::nullopt;
  return Fix{"\"auto\" for -1", {{member.value.span.offset, member.value.span.length, "\"auto\""}}};
}

bool is_written(const JsonObject& object, const std::string& key) {
  return std::any_of(object.begin(), object.end(), [&](const JsonMember& member) {
    return member.key == key && !member.value.span.source->preset;
  });
}

}  // namespace

Fix fix_of_key(const std::string& section, const JsonMember& member, const JsonObject& object,
               std::set<std::string>& claimed) {
  const std::string ours = our_key(section, member.key);
  if (ours.empty() || is_written(object, ours)) return {};
  const std::string path = section.empty() ? ours : section + "." + ours;
  const Field* const field = find_field(path);
  std::optional<Fix> fix;
  if (field != nullptr) {
    fix = fix_of_foreign_value(member);
    if (!fix) fix = fix_of_value(*field, member.value);
  } else if (find_section(path)->is_list ? member.value.is_array() : member.value.is_object()) {
    fix = Fix{};  // Its content is judged under its right name.
  }
  if (!fix || !claimed.insert(ours).second) return {};
  fix->edits.insert(fix->edits.begin(),
                    TextEdit{member.key_span.offset, member.key_span.length, in_quotes(ours)});
  fix->message = "write " + in_quotes(ours) + " for " + in_quotes(printable(member.key, 40)) +
                 (fix->message.empty() ? "" : ", and " + fix->message);
  return *fix;
}

Fix fix_of_choice(const JsonValue& value, const std::vector<std::string>& choices) {
  const std::string& word = value.string();
  std::string ours = same_choice(word, choices);
  if (ours.empty()) ours = only_near(lower(word), choices);
  if (ours.empty()) return {};
  return {"write " + in_quotes(ours) + " for " + in_quotes(printable(word, 40)),
          {{value.span.offset, value.span.length, in_quotes(ours)}}};
}

Fix fix_of_quotes(const JsonValue& value,
                  const std::function<bool(const JsonValue& bare)>& accepts) {
  const std::string& word = value.string();
  const SourceText text{"", word, true};
  ProblemList problems;
  const std::optional<JsonValue> bare = parse_json(text, problems);
  const bool plain = bare && !bare->is_string() && bare->span.length == word.size();
  if (!plain || !accepts(*bare)) return {};
  return {"write " + word + " without quotes", {{value.span.offset, value.span.length, word}}};
}

Fix fix_of_version(const Span& document) {
  const std::string& text = document.source->text;
  const std::size_t inside = document.offset + 1;
  const std::size_t next = text.find_first_not_of(" \t\r\n", inside);
  if (next == std::string::npos || text[next] == '}') return {};  // Nothing else stands there.
  // Copies the layout of the next key: on a line of its own, or behind the bracket.
  const std::string space = text.substr(inside, next - inside);
  return {"write \"schema_version\": 1",
          {{inside, 0, space + "\"schema_version\": 1," + (space.empty() ? " " : "")}}};
}

}  // namespace shardsim

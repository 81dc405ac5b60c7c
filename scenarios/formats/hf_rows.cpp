#include "scenarios/formats/hf_rows.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

namespace shardsim {

namespace {

// Writes fields under the foreign name that the file has.
class HfRows {
 public:
  HfRows(ForeignObject& config, Import& import) : config_(&config), import_(&import) {}
  void take(const std::vector<std::string>& keys, const std::string& path, std::int64_t value) {
    take_value(keys, path, FieldValue(value));
  }
  void take_value(const std::vector<std::string>& keys, const std::string& path,
                  const FieldValue& value) {
    for (const std::string& key : keys) {
      if (!config_->has(key)) continue;
      import_->take(key, config_->written(key), path, value);
      return;
    }
    import_->derive(keys.front(), "(not there)", path, value, "the family's default");
  }

 private:
  ForeignObject* config_;
  Import* import_;
};

// The plain heads that a scenario can have, nearest below those of the file.
struct PlainHeads {
  std::int64_t heads = 1;
  std::int64_t groups = 1;
};

PlainHeads plain_heads_of(const HfModel& model) {
  PlainHeads plain;
  for (std::int64_t heads = std::min(model.heads, model.hidden); heads > 1; --heads) {
    if (model.hidden % heads != 0 || (model.hidden / heads) % 2 != 0) continue;
    plain.heads = heads;
    break;
  }
  for (std::int64_t groups = std::min(model.key_value_heads, plain.heads); groups > 1; --groups) {
    if (plain.heads % groups != 0) continue;
    plain.groups = groups;
    break;
  }
  return plain;
}

void write_heads(const HfModel& model, HfRows& rows, Import& import) {
  const PlainHeads plain = plain_heads_of(model);
  if (plain.heads == model.heads) {
    rows.take({"num_attention_heads"}, "model.num_attention_heads", model.heads);
  } else {
    import.derive("num_attention_heads", std::to_string(model.heads), "model.num_attention_heads",
                  plain.heads, "heads of an even size that divide hidden_size");
  }
  if (plain.groups == model.key_value_heads) {
    rows.take({"num_key_value_heads"}, "model.num_query_groups", model.key_value_heads);
  } else {
    import.derive("num_key_value_heads", std::to_string(model.key_value_heads),
                  "model.num_query_groups", plain.groups, "they divide the heads");
  }
}

void write_experts(ForeignObject& config, const HfModel& model, HfRows& rows, Import& import) {
  rows.take({"num_local_experts", "num_experts", "n_routed_experts"}, "model.num_experts",
            model.num_experts);
  rows.take({"num_experts_per_tok", "num_experts_per_token"}, "model.num_experts_per_token",
            model.experts_per_token);
  rows.take({"moe_intermediate_size", "intermediate_size"}, "model.moe_ffn_hidden_size",
            model.expert_ffn);
  if (config.has("n_shared_experts")) {
    rows.take({"n_shared_experts"}, "model.num_shared_experts",
              model.shared_ffn / model.expert_ffn);
  } else if (model.shared_ffn > 0) {
    import.derive("shared_expert_intermediate_size", std::to_string(model.shared_ffn),
                  "model.num_shared_experts", model.shared_ffn / model.expert_ffn,
                  fmt::format("of {} each", model.expert_ffn));
  }
  if (model.dense_layers > 0) {
    rows.take({"first_k_dense_replace"}, "model.first_dense_layers", model.dense_layers);
  }
  if (const auto coefficient = config.number("router_aux_loss_coef")) {
    const double ours = *coefficient * static_cast<double>(model.experts_per_token) /
                        static_cast<double>(model.num_layers);
    import.derive("router_aux_loss_coef", config.written("router_aux_loss_coef"),
                  "model.moe_aux_loss_coeff", ours,
                  "a sum over layers here, a mean over layers there");
  }
}

bool has_window(ForeignObject& config) {
  const bool used = config.truth("use_sliding_window").value_or(true);
  return config.integer("sliding_window", kForeignNumber).has_value() && used;
}

void add_layer_kinds(ForeignObject& config, std::vector<std::string>& list) {
  const JsonValue* kinds = config.find("layer_types");
  if (kinds == nullptr || !kinds->is_array()) return;
  std::set<std::string> others;
  for (const JsonValue& kind : kinds->array()) {
    if (kind.is_string() && kind.string() != "full_attention") others.insert(kind.string());
  }
  for (const std::string& kind : others) {
    list.push_back("layers of " + kind + " (every layer here attends to all earlier positions)");
  }
}

void add_expert_limits(ForeignObject& config, const HfModel& model,
                       std::vector<std::string>& list) {
  if (model.shared_ffn % model.expert_ffn != 0) {
    list.push_back(
        fmt::format("a shared expert of {} beside experts of {} (here it is a whole "
                    "number of experts)",
                    model.shared_ffn, model.expert_ffn));
  }
  for (const char* key : {"decoder_sparse_step", "moe_layer_freq"}) {
    if (config.integer(key, kForeignNumber).value_or(1) != 1) {
      list.push_back(
          fmt::format("{} {}: dense layers between layers with experts", key, config.written(key)));
    }
  }
  const JsonValue* dense = config.find("mlp_only_layers");
  if (dense != nullptr && dense->is_array() && !dense->array().empty()) {
    list.push_back("mlp_only_layers: dense layers between layers with experts");
  }
}

}  // namespace

std::vector<std::string> hf_inexpressible(ForeignObject& config, const HfFamily& family,
                                          const HfModel& model) {
  std::vector<std::string> list;
  if (model.is_latent()) {
    list.push_back(
        fmt::format("multi-head latent attention (kv_lora_rank {}): plain heads of {} stand in for "
                    "it, with other parameters, operations and memory",
                    model.key_value_rank, model.hidden / plain_heads_of(model).heads));
  } else if (model.head_dim * model.heads != model.hidden) {
    list.push_back(
        fmt::format("{} heads of {} are {} wide beside hidden_size {} (here they are "
                    "hidden_size / num_attention_heads wide)",
                    model.heads, model.head_dim, model.heads * model.head_dim, model.hidden));
  }
  if (family.per_layer_windows || has_window(config)) add_layer_kinds(config, list);
  if (family.experts) add_expert_limits(config, model, list);
  if (config.integer("num_nextn_predict_layers", kForeignCount).value_or(0) > 0) {
    list.push_back("num_nextn_predict_layers: layers for multi-token prediction");
  }
  return list;
}

void write_hf_model(ForeignObject& config, const HfFamily& family, const HfModel& model,
                    Import& import) {
  HfRows rows(config, import);
  import.derive("model_type", model.model_type, "model.family", std::string("llama"),
                "blocks of Llama's kind");
  rows.take({"num_hidden_layers"}, "model.num_layers", model.num_layers);
  rows.take({"hidden_size"}, "model.hidden_size", model.hidden);
  rows.take({"intermediate_size"}, "model.ffn_hidden_size", model.ffn);
  write_heads(model, rows, import);
  rows.take({"vocab_size"}, "model.vocab_size", model.vocab);
  import.ignore("max_position_embeddings", std::to_string(model.positions),
                "rotary positions have no table");
  rows.take_value({"tie_word_embeddings"}, "model.tied_embeddings", model.tied);
  rows.take_value({"rms_norm_eps"}, "model.norm_epsilon", model.norm_epsilon);
  rows.take_value({"rope_theta", "rope_parameters"}, "model.rope_theta", model.rope_theta);
  if (family.experts) write_experts(config, model, rows, import);
  if (has_window(config) && !config.has("layer_types")) {
    import.warn("sliding_window", config.written("sliding_window"),
                "not modelled: attention costs as over all of seq_len, if that is longer");
  }
  if (model.num_small_parameters() > 0) {
    import.warn("biases, small norms and gates", std::to_string(model.num_small_parameters()),
                fmt::format("parameters that are not modelled, {:.4f} % of the model",
                            100.0 * static_cast<double>(model.num_small_parameters()) /
                                static_cast<double>(model.num_parameters())));
  }
}

void write_hf_precision(ForeignObject& config, Import& import) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    const std::optional<std::string> dtype = config.text(key);
    if (!dtype) continue;
    std::string ours;
    if (*dtype == "bfloat16") ours = "bf16";
    if (*dtype == "float16") ours = "fp16";
    if (*dtype == "float32") ours = "fp32";
    if (ours.empty()) break;
    if (!import.has("training.precision")) import.take(key, *dtype, "training.precision", ours);
    return;
  }
  if (import.has("training.precision")) return;
  import.assume("the precision of training", "training.precision", std::string("bf16"),
                "the file says no dtype that is trained in");
}

}  // namespace shardsim

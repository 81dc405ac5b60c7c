#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "scenarios/formats/foreign_object.hpp"
#include "scenarios/formats/hf_keys.hpp"
#include "scenarios/formats/hf_layers.hpp"
#include "scenarios/formats/hf_model.hpp"
#include "scenarios/formats/import.hpp"
#include "scenarios/presets.hpp"
#include "scenarios/suggest.hpp"

namespace shardsim {

namespace {

constexpr std::array kGpt2Keys = {
    NamePair{"n_layer", "model.num_layers"}, NamePair{"n_embd", "model.hidden_size"},
    NamePair{"n_head", "model.num_attention_heads"}, NamePair{"vocab_size", "model.vocab_size"}};

// A scenario has one number, GPT-2 has three.
void import_dropout(ForeignObject& config, Import& import) {
  const double residual = config.number("resid_pdrop").value_or(0.0);
  const double embedding = config.number("embd_pdrop").value_or(0.0);
  if (residual == embedding) {
    if (residual > 0.0) {
      import.take({"resid_pdrop, embd_pdrop", config.written("resid_pdrop")},
                  "training.hidden_dropout", residual);
    }
  } else {
    import.warn({"resid_pdrop, embd_pdrop",
                 config.written("resid_pdrop") + ", " + config.written("embd_pdrop")},
                "one rate serves both here: set training.hidden_dropout");
  }
  if (config.number("attn_pdrop").value_or(0.0) > 0.0) {
    import.ignore(config.at("attn_pdrop"), "attention drops nothing here");
  }
}

// Writes the model section from the config.json of a GPT-2, and its dropout.
void import_gpt2(ForeignObject& config, Import& import) {
  std::vector<const char*> missing;
  for (const NamePair& each : kGpt2Keys) {
    if (!config.integer(each.theirs, kForeignSize)) missing.push_back(each.theirs);
  }
  if (!missing.empty()) {
    config.refuse(
        "E1356", "model_type",
        fmt::format("the file lacks what a gpt2 model needs: {}", fmt::join(missing, ", ")),
        "take the config.json of the checkpoint itself, with all its keys");
  }
  import.take({"model_type", "gpt2"}, "model.family", std::string("gpt2"));
  for (const NamePair& each : kGpt2Keys) take_integer(config, each, kForeignSize, import);
  take_integer(config, {"n_inner", "model.ffn_hidden_size"}, kForeignSize, import);
  constexpr std::int64_t kPositions = 1024;
  for (const char* key : {"n_positions", "n_ctx"}) {
    const auto positions = config.integer(key, kForeignSize);
    if (!positions || import.has("model.max_position_embeddings")) continue;
    import.take(config.at(key), "model.max_position_embeddings", *positions);
  }
  if (!import.has("model.max_position_embeddings")) {
    import.derive({"n_positions", "(not there)"}, "model.max_position_embeddings", kPositions,
                  "the family's default");
  }
  import.derive(config.at("tie_word_embeddings"), "model.tied_embeddings",
                config.truth("tie_word_embeddings").value_or(true));
  take_number(config, {"layer_norm_epsilon", "model.norm_epsilon"}, import);
  import_dropout(config, import);
}

// The plain heads that a scenario can have, nearest below those of the file.
struct PlainHeads {
  std::int64_t heads = 1;
  std::int64_t groups = 1;
};

// All sizes are 1 or more, see ForeignRange.
PlainHeads plain_heads_of(const HfModel& model) {
  PlainHeads plain{std::min(model.heads, model.hidden), 1};
  const auto divides = [&](std::int64_t heads) {
    return model.hidden % heads == 0 && model.hidden / heads % 2 == 0;
  };
  while (plain.heads > 1 && !divides(plain.heads)) --plain.heads;
  plain.groups = std::min(model.key_value_heads, plain.heads);
  while (plain.heads % plain.groups != 0) --plain.groups;
  return plain;
}

void write_heads(ForeignObject& config, const HfModel& model, Import& import) {
  if (model.is_latent()) {
    take_under(config, {"num_attention_heads"}, "model.num_attention_heads", model.heads, import);
    return write_hf_latent(config, model, import);
  }
  const bool has_own_size = model.head_dim * model.heads != model.hidden;
  const PlainHeads plain =
      has_own_size ? PlainHeads{model.heads, model.key_value_heads} : plain_heads_of(model);
  if (plain.heads == model.heads) {
    take_under(config, {"num_attention_heads"}, "model.num_attention_heads", model.heads, import);
  } else {
    import.derive({"num_attention_heads", std::to_string(model.heads)}, "model.num_attention_heads",
                  plain.heads, "heads of an even size that divide hidden_size");
  }
  if (plain.groups == model.key_value_heads) {
    take_under(config, {"num_key_value_heads", "num_attention_groups"}, "model.num_query_groups",
               model.key_value_heads, import);
  } else {
    import.derive({"num_key_value_heads", std::to_string(model.key_value_heads)},
                  "model.num_query_groups", plain.groups, "they divide the heads");
  }
  if (has_own_size) {
    take_under(config, {"head_dim", "attention_head_dim"}, "model.head_dim", model.head_dim,
               import);
  }
  if (model.value_dim > 0 && model.value_dim != model.head_dim) {
    take_under(config, {"v_head_dim"}, "model.value_head_dim", model.value_dim, import);
  }
}

// The parts of a Llama-like model that no scenario can express, in sentences without a full stop.
std::vector<std::string> hf_inexpressible(ForeignObject& config, const HfFamily& family,
                                          const HfModel& model) {
  std::vector<std::string> list;
  if (model.is_latent()) add_hf_latent_limits(config, model, list);
  add_hf_features(config, list);
  add_hf_layer_limits(config, family, list);
  if (family.linear != Mixer::none) add_hf_linear_limits(config, family, model, list);
  add_hf_shape_limits(config, model.model_type, list);
  if (model.num_experts > 0) add_hf_expert_limits(config, model, list);
  if (family.own != nullptr) family.own->add_limits(config, model, list);
  return list;
}

void write_dense_width(ForeignObject& config, const HfFamily& family, const HfModel& model,
                       Import& import) {
  if (!model.feeds_by(FeedForward::dense)) {
    const bool is_unread = config.has("moe_intermediate_size") && config.has("intermediate_size") &&
                           model.shared_width != "intermediate_size";
    if (is_unread) import.ignore(config.at("intermediate_size"), "no layer has a dense MLP");
  } else if (family.shared_alone && model.num_experts == 0) {
    take_under(config, {family.shared_width}, "model.ffn_hidden_size", model.ffn, import);
  } else {
    take_under(config, {model.ffn_key}, "model.ffn_hidden_size", model.ffn, import);
  }
}

// Rows and fields of the model section.
void write_hf_model(ForeignObject& config, const HfFamily& family, const HfModel& model,
                    Import& import) {
  import.derive({"model_type", model.model_type}, "model.family", std::string("llama"),
                "blocks of Llama's kind");
  take_under(config, {"num_hidden_layers"}, "model.num_layers", model.num_layers, import);
  take_under(config, {"hidden_size"}, "model.hidden_size", model.hidden, import);
  write_dense_width(config, family, model, import);
  write_heads(config, model, import);
  take_under(config, {"vocab_size"}, "model.vocab_size", model.vocab, import);
  import.ignore({"max_position_embeddings", std::to_string(model.positions)},
                "rotary positions have no table");
  take_under(config, {"tie_word_embeddings"}, "model.tied_embeddings", model.tied, import);
  take_under(
      config,
      {"layer_norm_epsilon", "rms_norm_eps", "layer_norm_eps", "norm_eps", "layernorm_epsilon"},
      "model.norm_epsilon", model.norm_epsilon, import);
  if (model.turns()) {
    take_under(config, {"rope_theta", "rope_parameters"}, "model.rope_theta", model.rope_theta,
               import);
  }
  if (config.has("rope_scaling")) {
    import.ignore(config.at("rope_scaling", "{...}"),
                  "angles of rotary positions and the scale of scores, which cost nothing");
  }
  write_hf_shape(config, model.model_type, model.shape, import);
  if (model.mlp_bias) take_under(config, {"mlp_bias"}, "model.mlp_bias", true, import);
  if (model.rotary_dim != model.head_dim && !model.is_latent()) {
    take_under(config, {"partial_rotary_factor", "rotary_dim", "rope_parameters"},
               "model.rotary_dim", model.rotary_dim, import);
  }
  if (model.query_bias) {
    const ForeignValue cause = config.truth("attention_bias").value_or(false)
                                   ? config.at("attention_bias")
                                   : ForeignValue{"model_type", model.model_type};
    import.derive(cause, "model.query_key_value_bias", true);
  }
  if (model.output_bias) {
    take_under(config, {"attention_out_bias", "attention_bias"}, "model.attention_out_bias", true,
               import);
  }
  if (model.output_gate) {
    const ForeignValue cause = config.has("attn_output_gate")
                                   ? config.at("attn_output_gate")
                                   : ForeignValue{"model_type", model.model_type};
    import.derive(cause, "model.attention_output_gate", true);
  }
  if (model.head_gate) {
    import.derive(config.at("use_head_wise_attn_gate"), "model.attention_head_gate", true);
  }
  if (model.value_norm) {
    import.derive({"model_type", model.model_type}, "model.value_norm", true);
  }
  if (model.value_scale != 1.0) {
    import.take(config.at("attention_value_scale"), "model.value_scale", model.value_scale);
  }
  if (model.num_experts > 0) write_hf_experts(config, model, import);
  if (family.linear != Mixer::none) write_hf_linear(config, model, import);
  if (family.own != nullptr) family.own->write(config, model, import);
  write_hf_layers(config, model.layers, family, import);
  write_hf_prediction(config, model, import);
}

// Reads "dtype", or "torch_dtype" as it was before transformers 4.56, if the file has one.
void take_hf_precision(ForeignObject& config, Import& import) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    const std::optional<std::string> dtype = config.text(key);
    if (!dtype) continue;
    const std::string ours = type_of_torch(*dtype, "");
    if (ours.empty()) break;
    if (!import.has("training.precision")) import.take({key, *dtype}, "training.precision", ours);
    return;
  }
}

void assume_precision(Import& import) {
  if (import.has("training.precision")) return;
  import.assume("the precision of training", "training.precision", std::string("bf16"),
                "the file names no dtype for training");
}

// Sequence length of pretraining, if a model takes longer sequences after it.
constexpr std::int64_t kAssumedSequence = 8192;

std::string listed_keys(ForeignObject& config) {
  std::vector<const char*> missing;
  for (const char* key : {"num_hidden_layers", "hidden_size", "intermediate_size",
                          "num_attention_heads", "vocab_size", "max_position_embeddings"}) {
    if (!config.has(key)) missing.push_back(key);
  }
  return missing.empty()
             ? "it has all keys of a llama model"
             : fmt::format("it lacks these keys of a llama model: {}", fmt::join(missing, ", "));
}

[[noreturn]] void refuse_family(ForeignObject& config, const std::string& model_type) {
  const std::string name = model_type.empty() ? "no model_type" : "model_type " + model_type;
  std::vector<std::string> features;
  add_hf_features(config, features);
  add_hf_layer_limits(config, HfFamily{}, features);
  const std::string known = "known are " + one_of_list(hf_family_names());
  if (!features.empty()) {
    config.refuse("E1358", "model_type",
                  fmt::format("{} is not a supported model family, and not supported are: {}", name,
                              fmt::join(features, "; ")),
                  known);
  }
  config.refuse("E1358", "model_type",
                fmt::format("{} is not a supported model family; {}", name, listed_keys(config)),
                known + "; if its blocks are those of a llama, set model_type \"llama\"");
}

void assume_sequence(ForeignObject& config, Import& import) {
  if (import.has("model.seq_len")) return;
  const std::int64_t longest =
      config.integer("max_position_embeddings", kForeignSize)
          .value_or(config.integer("n_positions", kForeignSize)
                        .value_or(config.integer("n_ctx", kForeignSize).value_or(1024)));
  const std::int64_t original = config.inner("rope_scaling")
                                    .integer("original_max_position_embeddings", kForeignSize)
                                    .value_or(longest);
  import.assume("the sequence length of training", "model.seq_len",
                std::min({longest, original, kAssumedSequence}),
                "the file only says how long sequences may be");
}

// A model's file, and whether its embeddings are tied if its own section does not say it.
struct HfSource {
  std::string file;
  std::optional<bool> tied;
};

void import_llama_like(ForeignObject& config, const HfFamily& family, const HfSource& source,
                       HfReasons& reasons, Import& import) {
  const std::string& file = source.file;
  const HfModel model = read_hf_model(config, family, source.tied.value_or(family.tied), file);
  reasons.features = hf_inexpressible(config, family, model);
  write_hf_model(config, family, model, import);
  import.derive({"parameters", fmt::format("{}", model.num_parameters())}, "model.source",
                fmt::format("{} (Hugging Face, {}): {} parameters",
                            std::filesystem::path(file).filename().string(), model.model_type,
                            model.num_parameters()));
}

void import_text_model(ForeignObject& config, const HfSource& source, HfReasons& reasons,
                       Import& import) {
  const std::string model_type = hf_family_name(config);
  (void)config.has("architectures");
  const HfFamily* family = find_hf_family(model_type);
  if (model_type == "gpt2") {
    import_gpt2(config, import);
  } else if (family != nullptr) {
    import_llama_like(config, *family, source, reasons, import);
  } else {
    refuse_family(config, model_type);
  }
  assume_sequence(config, import);
  take_hf_precision(config, import);
  assume_precision(import);
  file_unread_hf_keys(config, import, reasons);
}

}  // namespace

// A model that also sees or
// hears has an object for its language model, which alone is imported.
void import_hf_model(const std::string& file, bool approximate, Import& import) {
  const std::unique_ptr<ForeignFile> read = read_foreign_json(file);
  ForeignObject config(&read->root);
  HfReasons reasons;
  if (!config.has("text_config")) {
    import_text_model(config, {file, {}}, reasons, import);
    return refuse_or_warn(reasons, file, approximate, import);
  }
  const std::optional<bool> tied = config.truth("tie_word_embeddings");
  ForeignObject text = config.inner("text_config");
  take_hf_precision(text, import);
  take_hf_precision(config, import);
  import_text_model(text, {file, tied}, reasons, import);
  file_unread_hf_keys(config, import, reasons);
  refuse_or_warn(reasons, file, approximate, import);
}

void import_named_model(const std::string& model, bool approximate, Import& import) {
  const std::vector<std::string> names = builtin_preset_names("models");
  if (std::find(names.begin(), names.end(), model) != names.end()) {
    import.take({"--model", model}, "model.preset", model);
    return;
  }
  std::error_code error;
  if (!std::filesystem::exists(model, error)) {
    throw UsageError(
        "E1357", "--model " + model + " is neither a file nor a model preset",
        help_for_preset(model, names, "models") + "; or name a config.json of Hugging Face");
  }
  import_hf_model(model, approximate, import);
}

void import_hf(const ImportRequest& request, Import& import) {
  import_hf_model(request.files.front(), request.approximate, import);
  const std::int64_t gpus = import_system(request, {}, import);
  if (request.plan) return;
  import.assume("the layout", "parallelism.zero_stage", std::int64_t{3},
                "fully sharded over all GPUs; --plan searches for one that fits");
  import.assume("the global batch", "training.global_batch_size", gpus, "a sequence per GPU");
}

}  // namespace shardsim

#include "scenarios/formats/import_hf.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "scenarios/formats/hf_gpt2.hpp"
#include "scenarios/formats/hf_rows.hpp"
#include "scenarios/formats/import_system.hpp"
#include "scenarios/presets.hpp"
#include "scenarios/suggest.hpp"

namespace shardsim {

namespace {

// Sequence length of pretraining, if a model takes longer sequences after it.
constexpr std::int64_t kAssumedSequence = 8192;

std::string listed_keys(ForeignObject& config) {
  std::string missing;
  for (const char* key : {"num_hidden_layers", "hidden_size", "intermediate_size",
                          "num_attention_heads", "vocab_size", "max_position_embeddings"}) {
    if (!config.has(key)) missing += (missing.empty() ? "" : ", ") + std::string(key);
  }
  return missing.empty() ? "it has all keys of a llama" : "of a llama's keys it lacks " + missing;
}

[[noreturn]] void refuse_family(ForeignObject& config, const std::string& model_type) {
  const bool nested = config.has("text_config");
  const std::string name = model_type.empty() ? "no model_type" : "model_type " + model_type;
  config.refuse("E1358", "model_type",
                fmt::format("{} is not a family that is known here; {}", name,
                            nested ? std::string("its language model is under text_config")
                                   : listed_keys(config)),
                nested ? "import the config.json of the language model alone"
                       : "known are " + one_of_list(hf_family_names()) +
                             "; if its blocks are those of a llama, set model_type \"llama\"");
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

void ignore_rest(ForeignObject& config, Import& import) {
  if (config.has("quantization_config")) {
    import.warn("quantization_config", "{...}", "not modelled: weights are trained unquantized");
  }
  for (const std::string& key : config.rest()) {
    import.ignore(config.name_of(key), config.written(key), "says nothing about cost");
  }
}

void import_llama_like(ForeignObject& config, const HfFamily& family, const std::string& file,
                       bool approximate, Import& import) {
  const HfModel model = read_hf_model(config, family, file);
  const std::vector<std::string> limits = hf_inexpressible(config, family, model);
  refuse_or_warn(limits, file, approximate, import);
  write_hf_model(config, family, model, import);
  import.derive("parameters", fmt::format("{}", model.num_parameters()), "model.source",
                fmt::format("{} (Hugging Face, {}): {} parameters",
                            std::filesystem::path(file).filename().string(), model.model_type,
                            model.num_parameters()));
}

}  // namespace

void import_hf_model(const std::string& file, bool approximate, Import& import) {
  const std::unique_ptr<ForeignFile> read = read_foreign_json(file);
  ForeignObject config(&read->root);
  const std::string model_type = config.text("model_type").value_or("");
  (void)config.has("architectures");
  const HfFamily* family = find_hf_family(model_type);
  if (model_type == "gpt2") {
    import_gpt2(config, import);
  } else if (family != nullptr) {
    import_llama_like(config, *family, file, approximate, import);
  } else {
    refuse_family(config, model_type);
  }
  assume_sequence(config, import);
  write_hf_precision(config, import);
  ignore_rest(config, import);
}

void import_named_model(const std::string& model, bool approximate, Import& import) {
  std::vector<std::string> names;
  for (const PresetInfo& preset : list_builtin_presets()) {
    if (preset.folder == "models") names.push_back(preset.name);
  }
  if (std::find(names.begin(), names.end(), model) != names.end()) {
    import.take("--model", model, "model.preset", model);
    return;
  }
  std::error_code error;
  if (!std::filesystem::exists(model, error)) {
    const std::string near = nearest(model, names);
    throw UsageError("E1357", "--model " + model + " is neither a file nor a model preset",
                     (near.empty() ? "" : "write \"" + near + "\"; ") +
                         "name a config.json of Hugging Face, or " + one_of_list(names));
  }
  import_hf_model(model, approximate, import);
}

void import_hf(const ImportRequest& request, Import& import) {
  import_hf_model(request.files.front(), request.approximate, import);
  const std::int64_t gpus = import_system(request, {}, import);
  import.assume("the layout", "parallelism.zero_stage", std::int64_t{3},
                "fully sharded over all GPUs; `shardsim plan` searches for better ones");
  import.assume("the global batch", "training.global_batch_size", gpus, "a sequence per GPU");
}

}  // namespace shardsim

#include "scenarios/formats/hf_gpt2.hpp"

#include <array>

namespace shardsim {

namespace {

struct Gpt2Key {
  const char* key;
  const char* path;
};

constexpr std::array kIntegers = {
    Gpt2Key{"n_layer", "model.num_layers"}, Gpt2Key{"n_embd", "model.hidden_size"},
    Gpt2Key{"n_head", "model.num_attention_heads"}, Gpt2Key{"vocab_size", "model.vocab_size"}};

// A scenario has one number, GPT-2 has three.
void import_dropout(ForeignObject& config, Import& import) {
  const double residual = config.number("resid_pdrop").value_or(0.0);
  const double embedding = config.number("embd_pdrop").value_or(0.0);
  if (residual == embedding) {
    if (residual > 0.0) {
      import.take("resid_pdrop, embd_pdrop", config.written("resid_pdrop"),
                  "training.hidden_dropout", residual);
    }
  } else {
    import.warn("resid_pdrop, embd_pdrop",
                config.written("resid_pdrop") + ", " + config.written("embd_pdrop"),
                "one rate serves both here: set training.hidden_dropout");
  }
  if (config.number("attn_pdrop").value_or(0.0) > 0.0) {
    import.ignore("attn_pdrop", config.written("attn_pdrop"), "attention drops nothing here");
  }
}

}  // namespace

void import_gpt2(ForeignObject& config, Import& import) {
  std::string missing;
  for (const Gpt2Key& each : kIntegers) {
    if (!config.integer(each.key, kForeignSize))
      missing += (missing.empty() ? "" : ", ") + std::string(each.key);
  }
  if (!missing.empty()) {
    config.refuse("E1356", "model_type", "the file lacks what a gpt2 model needs: " + missing,
                  "take the config.json of the checkpoint itself, with all its keys");
  }
  import.take("model_type", "gpt2", "model.family", std::string("gpt2"));
  for (const Gpt2Key& each : kIntegers) {
    import.take(each.key, config.written(each.key), each.path,
                *config.integer(each.key, kForeignSize));
  }
  if (const auto inner = config.integer("n_inner", kForeignSize)) {
    import.take("n_inner", config.written("n_inner"), "model.ffn_hidden_size", *inner);
  }
  constexpr std::int64_t kPositions = 1024;
  for (const char* key : {"n_positions", "n_ctx"}) {
    const auto positions = config.integer(key, kForeignSize);
    if (!positions || import.has("model.max_position_embeddings")) continue;
    import.take(key, config.written(key), "model.max_position_embeddings", *positions);
  }
  if (!import.has("model.max_position_embeddings")) {
    import.derive("n_positions", "(not there)", "model.max_position_embeddings", kPositions,
                  "the family's default");
  }
  import.derive("tie_word_embeddings", config.written("tie_word_embeddings"),
                "model.tied_embeddings", config.truth("tie_word_embeddings").value_or(true));
  if (const auto epsilon = config.number("layer_norm_epsilon")) {
    import.take("layer_norm_epsilon", config.written("layer_norm_epsilon"), "model.norm_epsilon",
                *epsilon);
  }
  import_dropout(config, import);
}

}  // namespace shardsim

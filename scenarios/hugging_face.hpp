#pragma once

#include "scenarios/json_value.hpp"

namespace shardsim {

/// Whether a document is a model's config.json of Hugging Face. It is imported, not loaded.
[[nodiscard]] inline bool is_hugging_face_config(const JsonValue& document) {
  if (!document.is_object()) return false;
  const auto has = [&document](const char* key) { return document.find(key) != nullptr; };
  const bool is_ours = has("schema_version") || has("model") || has("family") || has("preset");
  return !is_ours && (has("model_type") || has("architectures") || has("text_config"));
}

}  // namespace shardsim

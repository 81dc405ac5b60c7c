#include "sim/command/preset_page.hpp"

#include <fmt/format.h>

#include "reports/units.hpp"
#include "scenarios/load.hpp"
#include "scenarios/presets.hpp"
#include "sim/experiment/model_words.hpp"

namespace shardsim {

namespace {

constexpr const char* kHead = R"(# Models of the presets

`shardsim presets --page` prints this page. [Models](models.md) says how each feature is split, and what MFU counts.
Parameters are those of the text model, without multi-token prediction.
No model has scaled angles (Llama 3's, YaRN's) or YaRN's scale of scores, which cost nothing. A run's precision is `training.precision`.
Auxiliary losses of single sequences are not modelled.
Values and sources of one model: `shardsim presets NAME`.

| Preset | Parameters | Layers | Width | Mixers | Feed-forwards | Blocks | Not modelled |
|---|---|---|---|---|---|---|---|
)";

}  // namespace

ModelSpec preset_model(const std::string& preset) {
  const std::string text = fmt::format(
      R"({{"schema_version": 1, "model": {}, "system": {{"preset": "dgx-h100", "nodes": 1}},
          "training": {{"global_batch_size": 8}}}})",
      name_in_json(preset));
  return load_scenario_text(text, "model").model;
}

std::string preset_page() {
  std::string page = kHead;
  for (const std::string& name : builtin_preset_names("models")) {
    const ModelSpec model = preset_model(name);
    page += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} |\n", name,
                        format_amount(static_cast<double>(num_parameters(model)), Digits::three),
                        model.num_layers, format_count(model.hidden_size), mixers_in_words(model),
                        feed_forwards_in_words(model), blocks_in_words(model), model.not_modelled);
  }
  return page;
}

}  // namespace shardsim

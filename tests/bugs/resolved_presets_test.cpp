#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "scenarios/load.hpp"
#include "scenarios/presets.hpp"

namespace shardsim::test {

// `plan --out` writes such a text. That of a model with latent attention had sizes of heads, which
// its reader refuses beside the latents.
TEST_CASE("the resolved scenario of each model is read again, and resolves to itself") {
  const std::vector<std::string> names = builtin_preset_names("models");
  REQUIRE(names.size() > 50);
  for (const std::string& name : names) {
    INFO(name);
    const std::string text = fmt::format(
        R"({{"schema_version": 1, "model": "{}", "system": {{"preset": "dgx-h100", "nodes": 1}},
            "training": {{"global_batch_size": 64}}}})",
        name);
    const Scenario first = load_scenario_text(text, "a test");
    const Scenario again = load_scenario_text(first.resolved_json, "its own text");
    CHECK(again.resolved_json == first.resolved_json);
  }
}

}  // namespace shardsim::test

#include <algorithm>
#include <set>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "scenarios/field.hpp"
#include "scenarios/reading.hpp"
#include "scenarios/suggest.hpp"

#include "tests/approved_file.hpp"
#include "tests/scenarios/mixer_settings.hpp"
#include "tests/scenarios/support.hpp"

using namespace shardsim;
using namespace shardsim::testing;

TEST_CASE("every row of the field table is complete and consistent") {
  std::set<std::string> paths;
  for (const Field& field : field_table()) {
    INFO(field.path);
    CHECK(paths.insert(field.path).second);
    CHECK_FALSE(field.meaning.empty());
    CHECK(field.meaning.back() == '.');
    CHECK(field.set != nullptr);
    const bool counted = field.type == FieldType::integer || field.type == FieldType::number;
    CHECK((!counted || field.limits.max > 0));
    CHECK((field.type == FieldType::choice) == !field.choices.empty());
    // Exactly one way to a value when none is written; "$schema" alone needs none.
    const int ways = (field.is_required ? 1 : 0) + (field.default_json.empty() ? 0 : 1) +
                     (field.derived_words.empty() ? 0 : 1);
    CHECK(ways == (field.path == "$schema" ? 0 : 1));
    CHECK((!field.takes_auto || !field.derived_words.empty()));
    std::string home = parent_path(field.path);
    const bool is_item = is_item_field(field);
    if (is_item) home.resize(home.size() - 2);
    REQUIRE(find_section(home) != nullptr);
    CHECK(find_section(home)->is_list == is_item);
    CHECK((field.get_item != nullptr) == is_item);
  }
}

TEST_CASE("every list says what its objects are and how they are made") {
  for (const Section& section : section_table()) {
    if (!section.is_list) continue;
    INFO(section.path);
    Scenario scenario;
    REQUIRE(section.items.append != nullptr);
    CHECK(section.items.count(scenario) == 0);
    section.items.append(scenario);
    CHECK(section.items.count(scenario) == 1);
    // The example is one that the fields accept.
    const auto example = nlohmann::json::parse(section.items.example);
    for (const auto& [key, value] : example.items()) {
      CHECK(find_field(section.path + "[]." + key) != nullptr);
    }
    CHECK_FALSE(section.items.name.empty());
  }
}

TEST_CASE("every default is a value that its own row accepts") {
  for (const Field& field : field_table()) {
    if (field.default_json.empty()) {
      continue;
    }
    INFO(field.path);
    const SourceText text{"default", field.default_json, true};
    ProblemList problems;
    bool automatic = false;
    const auto value = parse_json(text, problems);
    REQUIRE(value.has_value());
    CHECK(read_value(field, *value, "", problems, automatic).has_value());
    CHECK(problems.empty());
  }
}

TEST_CASE("foreign names collide neither with each other nor with ours") {
  std::set<std::string> foreign_names;
  for (const Field& field : field_table()) {
    for (const ForeignName& foreign : field.foreign_names) {
      INFO(foreign.name);
      CHECK(foreign_names.insert(foreign.name).second);
      const bool is_ours =
          std::any_of(field_table().begin(), field_table().end(), [&foreign](const Field& other) {
            return !is_item_field(other) && last_key(other.path) == foreign.name;
          });
      CHECK_FALSE(is_ours);
    }
  }
}

TEST_CASE("what objects in a list are asked for is told, whatever other programs mean by a word") {
  const KeyHint hint = hint_for_key("faults.slow_links[]", "stage");
  CHECK(hint.help.rfind("the keys here are ", 0) == 0);
  CHECK(hint_for_key("parallelism", "stage").help == "write \"zero_stage\" instead");
  // A switch for a type is no speed of a device.
  CHECK(hint_for_key("training", "bf16").help == "write \"precision\": \"bf16\" instead");
  CHECK(hint_for_key("", "fp16").help == "write \"training.precision\": \"fp16\" instead");
  CHECK(hint_for_key("system", "bf16").help ==
        "move it: its full name is \"system.device.peak_tflops.bf16\"");
  CHECK(hint_for_key("faults.stragglers[]", "slow_down").help.rfind("write \"slowdown\"", 0) == 0);
}

TEST_CASE("every row reaches the scenario: what is set is what the resolved text says") {
  std::vector<std::string> flags = recurrent_layers();
  flags.insert(flags.end(),
               {"model.num_experts=2", "faults.gpu_mtbf_hours=50000", "faults.checkpoint_write_s=5",
                "faults.restart_s=5", "faults.draws.count=5", "system.network_model=nccl",
                "system.device.name=NVIDIA H100", "system.intra_node.bandwidth_gb_per_s=450",
                "model.num_query_groups=4", "model.kv_lora_rank=10", "model.q_lora_rank=7",
                "model.qk_nope_head_dim=4", "model.qk_rope_head_dim=2", "model.value_head_dim=5"});
  const Scenario s = loaded(valid_text(), flags);
  const auto document = nlohmann::json::parse(s.resolved_json);
  for (const Field& field : field_table()) {
    if (field.get != nullptr) {
      INFO(field.path);
      // Latents have sizes of their own, and the reader refuses these beside them.
      const bool is_of_heads = field.path == "model.head_dim" || field.path == "model.rotary_dim";
      CHECK(document.contains(nlohmann::json::json_pointer(pointer_of(field.path))) ==
            !is_of_heads);
    }
  }
  const auto model = nlohmann::json::parse(loaded(valid_text()).resolved_json)["model"];
  CHECK(model.contains("head_dim"));
  CHECK(model.contains("rotary_dim"));
}

TEST_CASE("a row's bounds are part of the range, or not, as it says") {
  const auto problem = [](const std::string& flag) {
    return !problems_of(valid_text(), {flag}).empty();
  };
  CHECK_FALSE(problem("parallelism.zero_stage=0"));
  CHECK_FALSE(problem("parallelism.zero_stage=3"));
  CHECK(problem("parallelism.zero_stage=4"));
  CHECK(problem("training.epsilon=0"));
  CHECK_FALSE(problem("training.epsilon=1"));
  CHECK_FALSE(problem("training.beta1=0"));
  CHECK(problem("training.beta1=1"));
  CHECK_FALSE(problem("system.device.memory_efficiency=1"));
  CHECK_FALSE(problem("execution.seed=9007199254740992"));
  CHECK(problem("execution.seed=9007199254740993"));
}

TEST_CASE("the shipped JSON Schema is the generated one") {
  test::require_approved_file("scenarios/scenario.schema.json", scenario_schema());
}

TEST_CASE("the shipped reference page is the generated one") {
  test::require_approved_file("docs/guide/scenario-reference.md", scenario_reference());
}

TEST_CASE("the schema names every field, and refuses others") {
  const auto schema = nlohmann::json::parse(scenario_schema());
  CHECK(schema["$schema"] == "http://json-schema.org/draft-07/schema#");
  CHECK(schema["additionalProperties"] == false);
  const auto& training = schema["properties"]["training"];
  CHECK(training["properties"]["precision"]["enum"].size() == 6);
  CHECK(training["properties"]["global_batch_size"]["maximum"] == 2147483648);
  CHECK(training["required"] == nlohmann::json::array({"global_batch_size"}));
  CHECK(schema["properties"]["model"]["anyOf"][0]["type"] == "string");
  CHECK(schema["properties"]["expect"]["items"]["required"].size() == 3);
}

TEST_CASE("edit distance counts inserts, deletes, replacements and swaps of neighbours") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("zero", "zero") == 0);
  CHECK(edit_distance("zero", "zeros") == 1);
  CHECK(edit_distance("zero", "ero") == 1);
  CHECK(edit_distance("zero", "hero") == 1);
  CHECK(edit_distance("zero", "zreo") == 1);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(nearest("gbt2", {"gpt2", "llama"}) == "gpt2");
  CHECK(nearest("x", {"gpt2", "llama"}).empty());
  CHECK(nearest("bert", {"gpt2", "llama"}).empty());
}

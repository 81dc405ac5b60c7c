#include <catch2/catch.hpp>
#include <rapidcheck/catch.h>

#include "tests/scenarios/support.hpp"

using namespace shardsim;
using namespace shardsim::testing;

namespace {

// Splits a text into its words, so that mutations stay nearly valid.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    if (text[at] == '"') {
      end = text.find('"', at + 1) + 1;
    } else {
      while (end < text.size() && std::isalnum(static_cast<unsigned char>(text[at])) != 0 &&
             (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '.')) {
        ++end;
      }
    }
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

rc::Gen<std::string> strange_word() {
  return rc::gen::element<std::string>(
      "0", "-1", "1", "2", "3", "7", "1e18", "1e308", "-0.0", "0.5", "1048576", "9007199254740993",
      "true", "null", "\"\"", "\"auto\"", "\"gpt2\"", "\"real\"", "\"fp16\"", "{}", "[]", "[1]",
      "\"preset\"", "\"dp_shard\"", "\"ranks\"", "\"expect\"", "\"source\"", ",", ":", "}", "{",
      "\xff", "{\"value\": 1, \"source\": \"x\"}");
}

// Loads a text and checks what the loader promises for any text at all.
void check_promises(const std::string& text) {
  try {
    const Scenario s = load_scenario_text(text, "test.json");
    RC_ASSERT(s.system.ranks == s.system.nodes * s.system.gpus_per_node);
    RC_ASSERT(s.parallelism.data_parallel_size() == s.system.ranks);
    RC_ASSERT(s.training.global_batch_size ==
              s.training.micro_batch_size * s.training.num_microbatches * s.system.ranks);
    RC_ASSERT(s.system.device.peak_tflops.of(s.training.dtype()) > 0);
    RC_ASSERT(load_scenario_text(s.resolved_json, "test.json").resolved_json == s.resolved_json);
  } catch (const ScenarioError& error) {
    RC_ASSERT(!error.problems().empty());
    for (const Problem& problem : error.problems()) {
      RC_ASSERT(problem.line >= 1);
      RC_ASSERT(problem.column >= 1);
      RC_ASSERT(!problem.message.empty());
      RC_ASSERT(!render(problem).empty());
    }
    RC_ASSERT(!error.to_json().empty());
  }
}

}  // namespace

TEST_CASE("any text gives either a consistent scenario or an error with a place") {
  const std::string text = valid_text();
  const std::vector<std::string> words = words_of(text);
  rc::prop("some words replaced, dropped or doubled", [&words] {
    std::vector<std::string> mutated = words;
    const int changes = *rc::gen::inRange(1, 5);
    for (int i = 0; i < changes; ++i) {
      const auto at = *rc::gen::inRange<std::size_t>(0, mutated.size());
      const int kind = *rc::gen::inRange(0, 4);
      if (kind == 0) {
        mutated[at].clear();
      } else if (kind == 1) {
        mutated[at] += mutated[at];
      } else if (kind == 2) {
        mutated[at] = mutated[*rc::gen::inRange<std::size_t>(0, mutated.size())];
      } else {
        mutated[at] = *strange_word();
      }
    }
    std::string all;
    for (const std::string& word : mutated) {
      all += word;
    }
    check_promises(all);
  });
  rc::prop("one number replaced by a strange one", [&words] {
    std::vector<std::string> mutated = words;
    std::vector<std::size_t> numbers;
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (std::isdigit(static_cast<unsigned char>(words[i][0])) != 0) {
        numbers.push_back(i);
      }
    }
    mutated[*rc::gen::elementOf(numbers)] = *rc::gen::oneOf(
        strange_word(), rc::gen::map(rc::gen::inRange<std::int64_t>(1, 40),
                                     [](std::int64_t n) { return std::to_string(n); }));
    std::string all;
    for (const std::string& word : mutated) {
      all += word;
    }
    check_promises(all);
  });
  rc::prop("one byte replaced", [&text] {
    std::string mutated = text;
    mutated[*rc::gen::inRange<std::size_t>(0, mutated.size())] = *rc::gen::arbitrary<char>();
    check_promises(mutated);
  });
  rc::prop("cut off anywhere", [&text] {
    check_promises(text.substr(0, *rc::gen::inRange<std::size_t>(0, text.size())));
  });
}

TEST_CASE("any flag gives either a scenario or an error that names the flag") {
  rc::prop("flags", [] {
    const auto path = *rc::gen::element<std::string>(
        "model", "model.family", "model.num_layers", "system.nodes", "system.device.memory_gib",
        "training.precision", "expect", "output.trace", "nothing", "model.num_layers.value", "name",
        "$schema", "schema_version");
    const std::string flag = path + "=" + *strange_word();
    try {
      load_scenario_text(valid_text(), "test.json", {flag});
    } catch (const ScenarioError& error) {
      for (const Problem& problem : error.problems()) {
        RC_ASSERT((problem.line >= 1 || problem.file.rfind("--set ", 0) == 0));
      }
    }
  });
}

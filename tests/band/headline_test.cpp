#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <rapidcheck.h>

#include "sim/kernel/error.hpp"

#include "sim/hardware/software.hpp"

#include "reports/text_summary.hpp"
#include "reports/verdict_words.hpp"
#include "scenarios/load.hpp"
#include "sim/run/run.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/property/check_property.hpp"
#include "tests/sample.hpp"

// Where a band exists its centre is the headline, and a simulated number outside it is told so.
namespace shardsim::test {
namespace {

// With single spaces, however the page breaks its lines.
std::string words_of(const std::string& text) {
  std::istringstream page(text);
  std::string words;
  for (std::string word; page >> word;) words += word + " ";
  return words;
}

std::string words_of_page(const Result& result) { return words_of(to_text(result, {}, {})); }

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

// The first thing that is wrong; empty if nothing is. Only a page whose every line is shown is
// asked for all notes.
std::string wrong_of(const Result& result) {
  const std::string page = words_of_page(result);
  int outside = 0;
  for (const MetricBand& band : result.error_bands) {
    if (!(band.low <= band.centre && band.centre <= band.high)) return band.metric + ": centre";
    const double simulated = result.number(band.metric).value();
    if (simulated < band.low || simulated > band.high) ++outside;
    if (page.find(by_the_model(band, simulated)) == std::string::npos) {
      return band.metric + ": the model's number";
    }
    if (page.find(band_centre(band)) == std::string::npos) return band.metric + ": headline";
  }
  if (count_of(page, "outside that range") != outside) return "notes";
  const bool says_none = page.find("error band none: ") != std::string::npos;
  return says_none == result.error_bands.empty() ? "" : "neither a band nor a reason";
}

std::vector<std::string> frameworks() {
  std::vector<std::string> names = {"none"};
  for (const Software& software : all_software()) names.emplace_back(software.name);
  return names;
}

}  // namespace

TEST_CASE("the headline of each shipped plan lies within its band") {
  int banded = 0;
  for (const auto& entry : std::filesystem::directory_iterator("scenarios")) {
    const std::string name = entry.path().filename();
    if (name.starts_with("verify-") || !name.ends_with(".json")) continue;
    if (name == "scenario.schema.json") continue;
    INFO(name);
    const Result result = run_scenario(load_scenario(entry.path(), {})).result;
    CHECK(wrong_of(result) == "");
    if (!result.error_bands.empty()) ++banded;
  }
  CHECK(banded >= 4);
}

TEST_CASE("diff shows each side's centre, its range and the model's number") {
  const std::string plan = "scenarios/quickstart.json";
  const std::vector<std::string> words = {"diff", plan, plan, "--set",
                                          "system.software=megatron-core-2023"};
  const std::string page = words_of(shardsim(words).out);
  const auto sides = {std::vector<std::string>{},
                      std::vector<std::string>{"system.software=megatron-core-2023"}};
  for (const std::vector<std::string>& overrides : sides) {
    const Result result = run_scenario(load_scenario(plan, overrides)).result;
    REQUIRE(result.error_bands.size() == 2);
    for (const MetricBand& band : result.error_bands) {
      const double simulated = result.number(band.metric).value();
      CHECK(page.find(band_centre(band) + ", " + band_held(band) + " " + band_range(band) + " (" +
                      band.group + "); " + by_the_model(band, simulated)) != std::string::npos);
    }
  }
  CHECK(page.find("bands of different groups") != std::string::npos);
}

TEST_CASE("a sweep tells the ranges of its points' groups, and keeps both numbers in its rows") {
  const TemporaryFolder folder;
  const std::vector<std::string> words = {
      "sweep",  "scenarios/quickstart.json",
      "--axis", "system.software=torchtitan-2025,megatron-core-2023",
      "--out",  folder / "a",
      "--jobs", "1"};
  const std::string page = words_of(shardsim(words).out);
  std::vector<std::string> more = words;
  more.insert(more.end(), {"--format", "ndjson"});
  std::istringstream lines(shardsim(more).out);
  int rows = 0;
  for (std::string line; std::getline(lines, line); ++rows) {
    const nlohmann::json row = nlohmann::json::parse(line);
    const Result result =
        run_scenario(
            load_scenario("scenarios/quickstart.json",
                          {"system.software=" + row.at("system.software").get<std::string>()}))
            .result;
    REQUIRE(result.error_bands.size() == 2);
    for (const MetricBand& band : result.error_bands) {
      const double simulated = result.number(band.metric).value();
      CHECK(row.at(band.metric) == simulated);
      CHECK(row.at(band.metric + ".band_low") == band.low);
      CHECK(row.at(band.metric + ".band_centre") == band.centre);
      CHECK(row.at(band.metric + ".band_high") == band.high);
      CHECK(row.at(band.metric + ".band_group") == band.group);
      CHECK(page.find(fmt::format("about {:.2f} times as much, {} {:.2f} to {:.2f} times:",
                                  band.centre / simulated, band_held(band), band.low / simulated,
                                  band.high / simulated)) != std::string::npos);
      CHECK(page.find("(" + band.group + ")") != std::string::npos);
    }
  }
  CHECK(rows == 2);
  CHECK(page.find("another order") != std::string::npos);
}

TEST_CASE("property: the headline of any plan lies within its band") {
  int banded = 0;
  int outside = 0;
  check_property(long_run() ? 500 : 60, [&] {
    const auto power = [](int most) { return std::to_string(1 << *rc::gen::inRange(0, most + 1)); };
    std::vector<std::string> overrides = {
        "system.preset=" + *rc::gen::element<std::string>("dgx-h100", "dgx-a100", "dgx-b200"),
        "system.nodes=" + power(3),
        "parallelism.tp=" + power(3),
        "parallelism.pp=" + power(2),
        "parallelism.zero_stage=" + std::to_string(*rc::gen::inRange(0, 4)),
        "parallelism.dp_shard=auto",
        "training.global_batch_size=256",
        "model.seq_len=1024"};
    const std::string software = *rc::gen::elementOf(frameworks());
    if (*rc::gen::arbitrary<bool>()) overrides.push_back("system.software=" + software);
    try {
      const Result result =
          run_scenario(load_scenario("scenarios/quickstart.json", overrides)).result;
      const std::string wrong = wrong_of(result);
      if (!wrong.empty()) RC_FAIL(wrong + "\n" + to_text(result, {}, {}));
      for (const MetricBand& band : result.error_bands) {
        const double simulated = result.number(band.metric).value();
        outside += simulated < band.low || simulated > band.high ? 1 : 0;
      }
      banded += result.error_bands.empty() ? 0 : 1;
    } catch (const Error&) {
      return;  // Its fields do not fit together.
    }
  });
  CHECK(banded >= 20);
  CHECK(outside >= 1);  // Or the note would be tested by no plan.
}

}  // namespace shardsim::test

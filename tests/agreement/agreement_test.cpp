#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/agreement/page_readers.hpp"
#include "tests/app/command_fixture.hpp"

// All that is written of one run agrees on every number it shares with the result, at the precision
// it is printed with.
namespace shardsim::test {

namespace {

struct Page {
  const char* kind;
  ShownNumbers (*read)(const std::string& text);
  std::string text;
  std::set<std::string> must_show;
};

std::set<std::string> names_of(const ShownNumbers& numbers) {
  std::set<std::string> names;
  for (const ShownNumber& number : numbers) names.insert(number.metric);
  return names;
}

// The names in `wanted` that are not in `shown`.
std::string missing(const std::set<std::string>& wanted, const std::set<std::string>& shown) {
  std::string names;
  for (const std::string& name : wanted) {
    // Where a band exists, its centre stands for what was simulated.
    if (shown.count(name) == 0 && shown.count(name + ".centre") == 0) names += name + " ";
  }
  return names;
}

const std::set<std::string> kOfEveryScreen = {"step_time_s",
                                              "mfu",
                                              "tokens_per_s_per_gpu",
                                              "model_tflops_per_gpu",
                                              "time.compute_s",
                                              "time.bubble_s",
                                              "time.exposed_comm_s",
                                              "memory.peak_bytes.max",
                                              "cost.days",
                                              "cost.gpu_hours",
                                              "cost.usd",
                                              "comm.bytes_sent.total"};

struct WrittenRun {
  std::string screen;
  std::string json;
  std::string markdown;
  std::string html;
  std::string csv;
  std::map<std::string, std::vector<std::vector<std::string>>> tables;
};

const std::vector<std::string> kPriced = {"--set", "training.tokens_total=2e12", "--set",
                                          "cost.usd_per_gpu_hour=2.35"};

WrittenRun written(const std::string& scenario, std::vector<std::string> more = {}) {
  const TemporaryFolder folder;
  std::vector<std::string> words = {scenario,
                                    "--set",
                                    "output.result=run.json",
                                    "--set",
                                    "output.markdown=run.md",
                                    "--set",
                                    "output.report=run.html",
                                    "--set",
                                    "output.csv=tables/run.csv",
                                    "--out",
                                    folder.path()};
  words.insert(words.end(), kPriced.begin(), kPriced.end());
  words.insert(words.end(), more.begin(), more.end());
  const Printed printed = shardsim(words);
  INFO(printed.err);
  REQUIRE(printed.exit_code == 0);
  WrittenRun run{.screen = printed.out,
                 .json = content_of(folder / "run.json"),
                 .markdown = content_of(folder / "run.md"),
                 .html = content_of(folder / "run.html"),
                 .csv = content_of(folder / "tables/run.csv"),
                 .tables = {}};
  for (const char* table : {"stages", "axes", "links", "traffic", "operations"}) {
    run.tables[table] =
        csv_rows(content_of(folder / (std::string("tables/run.") + table + ".csv")));
  }
  return run;
}

// Overrides that leave so little work that the devices wait for their hosts.
const std::vector<std::string> kWaitsForHost = {"--set", "system.software=megatron-lm-2021",
                                                "--set", "training.micro_batch_size=1",
                                                "--set", "training.global_batch_size=32",
                                                "--set", "training.num_microbatches=1",
                                                "--set", "model.seq_len=128"};

const char* const kScenarios[] = {
    "scenarios/quickstart.json", "scenarios/gpt2-xl-zero2-32xa100.json",
    "scenarios/verify-gpt-tp2-pp2-dp2-zero1.json", "scenarios/verify-llama-ep4-skewed.json",
    "scenarios/faults-llama3-70b.json"};

std::size_t column(const std::vector<std::vector<std::string>>& table, const std::string& name) {
  const auto found = std::find(table.front().begin(), table.front().end(), name);
  REQUIRE(found != table.front().end());
  return static_cast<std::size_t>(found - table.front().begin());
}

std::int64_t in_picoseconds(const std::string& seconds) {
  constexpr double kPerSecond = 1e12;
  return std::llround(std::stod(seconds) * kPerSecond);
}

template <class Read>
std::int64_t column_sum(const std::vector<std::vector<std::string>>& table, const char* name,
                        const Read& read) {
  const std::size_t place = column(table, name);
  std::int64_t sum = 0;
  for (std::size_t row = 1; row < table.size(); ++row) sum += read(table[row].at(place));
  return sum;
}

void compare_pages(const WrittenRun& run) {
  const ShownNumbers truth = read_json(run.json);
  std::map<std::string, double> metrics;
  for (const ShownNumber& number : truth) metrics[number.metric] = number.value;
  std::set<std::string> all = names_of(truth);
  std::erase_if(all, [](const std::string& name) {
    return name.ends_with(".centre") || name.ends_with(".high");
  });
  const std::vector<Page> pages = {{"screen", read_screen, run.screen, kOfEveryScreen},
                                   {"Markdown", read_markdown, run.markdown, all},
                                   {"HTML", read_html, run.html, all},
                                   {"CSV", read_csv, run.csv, all}};
  for (const Page& page : pages) {
    INFO(page.kind);
    const ShownNumbers shown = page.read(page.text);
    CHECK(missing(page.must_show, names_of(shown)) == "");
    for (const ShownNumber& number : shown) {
      INFO(number.metric << " is " << metrics[number.metric] << ", shown as " << number.value);
      REQUIRE(metrics.count(number.metric) == 1);
      CHECK(std::fabs(number.value - metrics[number.metric]) <= number.rounding);
    }
  }
}

}  // namespace

TEST_CASE("screen, JSON, Markdown, HTML and CSV of one run agree on every number they share") {
  for (const char* scenario : kScenarios) {
    INFO(scenario);
    compare_pages(written(scenario));
  }
  compare_pages(written("scenarios/gpt2-xl-zero2-32xa100.json", kWaitsForHost));
  CHECK(patterns_without_match() == "");
}

TEST_CASE("Markdown rounds its tables' figures, too, and not only lists them") {
  const ShownNumbers shown = read_markdown(written(kScenarios[2]).markdown);
  std::set<std::string> in_tables;
  for (const ShownNumber& number : shown) {
    if (number.rounding > 0) in_tables.insert(number.metric);
  }
  CHECK(missing({"step_time_s", "mfu", "time.compute_s", "time.exposed_comm_s", "cost.usd",
                 "memory.peak_bytes.max", "comm.bytes_sent.total", "comm.bytes_sent.by_axis.dp",
                 "comm.bytes_sent.by_axis.tp", "comm.bytes_sent.by_axis.pp"},
                in_tables) == "");
}

TEST_CASE("the HTML page rounds its tiles' figures, too, and not only lists them") {
  std::set<std::string> in_tiles;
  for (const ShownNumber& number : read_html(written(kScenarios[0]).html)) {
    if (number.rounding > 0) in_tiles.insert(number.metric);
  }
  CHECK(missing({"step_time_s", "mfu", "tokens_per_s_per_gpu", "model_tflops_per_gpu",
                 "memory.peak_bytes.max", "memory.device_bytes.max", "cost.days", "cost.usd"},
                in_tiles) == "");
}

TEST_CASE("tables of CSV sum to the metrics") {
  for (const char* scenario : kScenarios) {
    INFO(scenario);
    const WrittenRun run = written(scenario);
    const nlohmann::json metrics = nlohmann::json::parse(run.json)["metrics"];
    const auto shown_picoseconds = [&](const char* name) {
      return in_picoseconds(nlohmann::to_string(metrics[name]));
    };
    const auto& axes = run.tables.at("axes");
    CHECK(column_sum(axes, "exposed_s", in_picoseconds) ==
          shown_picoseconds("time.exposed_comm_s"));
    CHECK(column_sum(axes, "hidden_s", in_picoseconds) == shown_picoseconds("time.hidden_comm_s"));
    const auto whole = [](const std::string& text) { return std::stoll(text); };
    const auto total = metrics["comm.bytes_sent.total"].get<std::int64_t>();
    CHECK(column_sum(axes, "bytes_sent", whole) == total);
    CHECK(column_sum(run.tables.at("links"), "bytes", whole) == total);
    CHECK(column_sum(run.tables.at("traffic"), "bytes", whole) == total);
    const auto& stages = run.tables.at("stages");
    bool has_last = false;
    for (std::size_t row = 1; row < stages.size(); ++row) {
      has_last |= in_picoseconds(stages[row].at(column(stages, "compute_s"))) ==
                      shown_picoseconds("time.compute_s") &&
                  in_picoseconds(stages[row].at(column(stages, "bubble_s"))) ==
                      shown_picoseconds("time.bubble_s");
    }
    CHECK(has_last);
  }
}

}  // namespace shardsim::test

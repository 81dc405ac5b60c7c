#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/diff/comparison.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/diff/diff_fixture.hpp"

// `shardsim diff` as one runs it.
namespace shardsim::test {

namespace {

std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of('\n');
  const std::size_t begin = text.rfind('\n', end);
  return text.substr(begin + 1, end - begin);
}

}  // namespace

TEST_CASE("two settings of one scenario are compared, and a sentence ends it", "[diff]") {
  const Printed printed = shardsim({"diff", kPlan, "--set", "parallelism.zero_stage=2"});
  INFO(printed.out << printed.err);
  CHECK(printed.exit_code == 0);
  CHECK(contains(printed.out, "\nstep time "));
  CHECK(contains(printed.out, "\n  exposed dp "));
  CHECK(contains(printed.out, "\n  dp "));
  CHECK(contains(printed.out, "parallelism.zero_stage                       3 -> 2\n"));
  CHECK(last_line(printed.out).rfind("B is ", 0) == 0);
  CHECK(last_line(printed.out).back() == '.');
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = printed.out.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    const bool sentence = printed.out.substr(begin, end - begin) == last_line(printed.out);
    CHECK((sentence || end - begin <= 100));
  }
}

TEST_CASE("JSON has the same, in whole numbers that add up", "[diff]") {
  const Printed printed = shardsim({"diff", kPlan, "--set", "parallelism.zero_stage=2", "--json"});
  const auto json = nlohmann::json::parse(printed.out);
  CHECK(json["schema_version"] == 1);
  for (const char* table : {"time_ps", "memory_bytes"}) {
    std::int64_t sum = 0;
    for (const auto& part : json[table]["parts"]) sum += part["difference"].get<std::int64_t>();
    CHECK(sum == json[table]["total"]["difference"].get<std::int64_t>());
  }
  CHECK(contains(shardsim({"diff", kPlan, "--set", "parallelism.zero_stage=2"}).out,
                 json["sentence"].get<std::string>()));
}

TEST_CASE("a plan is held against the log of a real run", "[diff]") {
  const Printed printed = shardsim({"diff", kPlan, "--measured", kLog});
  INFO(printed.out << printed.err);
  CHECK(printed.exit_code == 0);
  CHECK(contains(printed.out, "median of 5 of 7 reported iterations"));
  CHECK(contains(printed.out, "\n  not told apart "));
  CHECK(contains(printed.out, "\nmax allocated "));
  CHECK(last_line(printed.out).rfind("The measured run is ", 0) == 0);
  CHECK(contains(last_line(printed.out), "the prediction's error band"));
  // The same batch: no field differs.
  CHECK_FALSE(contains(printed.out, "scenario: "));
  const Printed other = shardsim({"diff", kPlan, kLog, "--json"});
  CHECK(nlohmann::json::parse(other.out)["b"]["kind"] == "megatron_log");
}

TEST_CASE("a log of another model is no measurement of the plan", "[diff]") {
  const Printed printed =
      shardsim({"diff", kPlan, "--measured", "tests/exchange/data/megatron-28b.log"});
  INFO(printed.out << printed.err);
  CHECK(printed.exit_code == 0);
  CHECK(contains(printed.out, "model.num_layers                             32 -> 56\n"));
  CHECK(contains(printed.out, "parallelism.tp                               1 -> 4\n"));
  CHECK(contains(last_line(printed.out),
                 ", but it is not the same model: 56 layers instead of 32, hidden size 6144"));
  CHECK(contains(last_line(printed.out), "; it is not on as many GPUs: 8 instead of 64;"));
  CHECK_FALSE(contains(last_line(printed.out), "band"));
}

TEST_CASE("a log may begin with a path", "[diff]") {
  const TemporaryFolder folder;
  write(folder / "run.log", "/usr/lib/python3/torch/x.py:1: FutureWarning: y\n" + content_of(kLog));
  const Printed printed = shardsim({"diff", kPlan, folder / "run.log"});
  INFO(printed.err);
  CHECK(printed.exit_code == 0);
  CHECK(contains(printed.out, "Megatron-LM log, median of 5 of 7"));
  write(folder / "plan.json", "/* ours */ " + content_of(kPlan));
  CHECK(shardsim({"diff", kPlan, folder / "plan.json"}).exit_code == 0);
}

TEST_CASE("a plan is held against a profiler's trace", "[diff]") {
  const Printed printed = shardsim({"diff", kPlan, kTrace});
  INFO(printed.out << printed.err);
  CHECK(printed.exit_code == 0);
  CHECK(contains(printed.out, "\n  idle "));
  CHECK(contains(printed.out, "\n  copies "));
  CHECK(contains(printed.out, "profiler trace of rank 5, 2 steps"));
}

TEST_CASE("a limit that is exceeded fails, for scripts", "[diff]") {
  const auto diff = [](const std::string& limit) {
    return shardsim({"diff", kPlan, "--set", "training.global_batch_size=256", "--set",
                     "training.num_microbatches=4", "--fail-if", limit});
  };
  Printed printed = diff("step_time_s > 2%");
  CHECK(printed.exit_code == 1);
  CHECK(contains(printed.err, "failed: step_time_s changes by +"));
  CHECK(diff("step_time_s > 400%").exit_code == 0);
  CHECK(diff("step_time_s < -2%").exit_code == 0);
  CHECK(diff("mfu<0").exit_code == 0);
  printed = diff("step_tim_s > 2%");
  CHECK(printed.exit_code == 2);
  CHECK(contains(printed.err, "write \"step_time_s\""));
  CHECK(contains(diff("step > 2%").err, "write \"step_time_s\""));
}

TEST_CASE("limits are of changes, in percent or in the metric's unit", "[diff]") {
  RunComparison comparison;
  comparison.metrics = {{"m", 100.0, 103.0}, {"zero", 0.0, 1.0}, {"none", 0.0, 0.0}};
  const auto breached = [&](const std::string& text) {
    return !breach_of(parse_limit(text), comparison).empty();
  };
  CHECK(breached("m > 2%"));
  CHECK(breached("m > 2.9 %"));
  CHECK_FALSE(breached("m > 3%"));
  CHECK(breached("m > 2.5"));
  CHECK_FALSE(breached("m > +3"));
  CHECK(breached("m < 4"));
  CHECK_FALSE(breached("m < -1%"));
  CHECK_FALSE(breached("none > 0%"));
  CHECK(breached("zero > 0.5"));
  CHECK_THROWS_AS(breached("zero > 5%"), UsageError);
  for (const char* text : {"", "m", "m >", "m > x", "> 3", "m > 3%%", "m = 3", "m > inf"}) {
    CHECK_THROWS_AS(parse_limit(text), UsageError);
  }
}

TEST_CASE("files that are neither are refused, with a way out", "[diff]") {
  const TemporaryFolder folder;
  write(folder / "notes.txt", "nothing of ours\n");
  write(folder / "empty", "");
  write(folder / "packed.json.gz", "\x1f\x8b\x08");
  write(folder / "cut.json", content_of(kTrace).substr(0, 3000));
  write(folder / "idle.json", "{\"traceEvents\": []}");
  write(folder / "deadlock.json", R"({"scenario": {}, "metrics": {}})");
  write(folder / "odd.json", R"({"scenario": {}, "metrics": [], "assumptions": [1]})");
  write(folder / "list.json", "[1]");
  const Mistake mistakes[] = {
      {{folder / "notes.txt"}, "is not a result, a scenario", "elapsed time per iteration"},
      {{folder / "empty"}, "or it is empty", "check the path"},
      {{folder / "none"}, "cannot read", "check the path"},
      {{folder.path()}, "cannot read", "check the path"},
      {{folder / "packed.json.gz"}, "is not a result", "gunzip"},
      {{folder / "cut.json"}, "is cut off or damaged", "export it whole"},
      {{folder / "idle.json"}, "shows no work of a GPU", "ProfilerActivity.CUDA"},
      {{folder / "deadlock.json"}, "has no step time", "shardsim FILE"},
      {{folder / "odd.json"}, "is not a result of shardsim", "--json"},
      {{folder / "list.json"}, "is not a result, a scenario", "a log has lines"},
  };
  for (const Mistake& mistake : mistakes) {
    const Printed printed = shardsim({"diff", kPlan, mistake.arguments.front()});
    INFO(printed.err);
    CHECK(printed.exit_code == 2);
    CHECK(contains(printed.err, mistake.said));
    CHECK(contains(printed.err, mistake.way_out));
  }
  // A scenario with a slip is told as everywhere.
  write(folder / "slip.json", "{\"schema_version\": 1, \"modle\": {}}");
  CHECK(contains(shardsim({"diff", kPlan, folder / "slip.json"}).err, "error[E0107]"));
}

TEST_CASE("a side that does not fit is told as such, in text and JSON", "[diff]") {
  const std::vector<std::string> words = {"diff", kPlan, "--set", "parallelism.zero_stage=2"};
  const Printed printed = shardsim(words);
  INFO(printed.out);
  CHECK(contains(printed.out, "\n   B does not fit: it needs "));
  CHECK_FALSE(contains(printed.out, "A does not fit"));
  CHECK(contains(last_line(printed.out), "; B does not fit: it needs "));
  CHECK(contains(last_line(printed.out), " on the fullest GPU, which has 79.6 GiB."));
  const auto json = nlohmann::json::parse(
      shardsim({"diff", kPlan, "--set", "parallelism.zero_stage=2", "--json"}).out);
  CHECK(json["a"]["fits"] == true);
  CHECK(json["b"]["fits"] == false);
  const auto log =
      nlohmann::json::parse(shardsim({"diff", kPlan, "--measured", kLog, "--json"}).out);
  CHECK(log["b"]["fits"].is_null());
}

TEST_CASE("shares, blanks and cuts of the text are clean", "[diff]") {
  constexpr std::int64_t kGib = std::int64_t{1} << 30;
  RunSide a = made_side(1000, {{"compute", 1000}});
  RunSide b = made_side(1001, {{"compute", 900}, {"bubble", 101}});
  a.peak_bytes = b.peak_bytes = 4 * kGib;
  a.memory = {{"params", 4 * kGib - 16}, {"comm", 16}};
  b.memory = {{"params", 4 * kGib - 3 * kGib}, {"comm", 3 * kGib}};
  b.assumptions = {std::string(60, 'x') + " these words are whole and " + std::string(9, 'y') +
                   " stays out of it"};
  for (int i = 0; i < 13; ++i) b.fields["f" + std::to_string(i)] = "1";
  for (int i = 0; i < 6; ++i) b.assumptions.push_back("more " + std::to_string(i));
  a.traffic = {{"dp", 1'000'000}};
  b.traffic = {{"dp", 999'999}};
  const std::string text = diff_text(compare(a, b));
  INFO(text);
  CHECK(contains(text, " +101 ps        new\n"));
  CHECK_FALSE(contains(text, "-0.0 %"));
  CHECK_FALSE(contains(text, "+0.0 %"));
  CHECK(contains(text, " +3.00 GiB        new\n"));
  CHECK_FALSE(contains(text, " \n"));
  CHECK(contains(text, " these words are whole and ...\n"));
  CHECK(contains(text, "\n  ... and 1 more (--json has all)\n"));
  CHECK(contains(text, "\n  B ... and 3 more (--json has all)\n"));
}

TEST_CASE("there are two sides, not one and not three", "[diff]") {
  const Printed five = shardsim({"diff", kPlan, kPlan, kPlan, kPlan, kPlan});
  CHECK(five.exit_code == 2);
  CHECK(contains(five.err, "error[E1345]: at most four files can be compared"));
  CHECK(contains(shardsim({"diff", kPlan}).err, "error[E1345]"));
  CHECK(contains(shardsim({"diff", kPlan, kPlan, "--measured", kLog}).err, "error[E1345]"));
}

}  // namespace shardsim::test

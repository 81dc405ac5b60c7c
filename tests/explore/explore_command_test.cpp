#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/app/command_fixture.hpp"
#include "tests/explore/planted_schedules.hpp"
#include "tests/mutants/wrong_numbers.hpp"

// --explore and --replay: what is proven, what is found, and that it is found again.
namespace shardsim::test {
namespace {

using nlohmann::json;

const std::string kRing = "scenarios/verify-llama-cp2-ring.json";
const std::string kPerceptron = "scenarios/verify-mlp-ddp.json";

RunArguments exploring(const std::string& file, const std::string& mode = "pct") {
  RunArguments arguments;
  arguments.file = file;
  arguments.explore.mode = mode;
  arguments.explore.schedules = 6;
  return arguments;
}

RunArguments replaying(const std::string& file, const std::string& token) {
  RunArguments arguments;
  arguments.file = file;
  arguments.explore.replay = token;
  return arguments;
}

json json_of(RunArguments arguments, const RunHooks& hooks) {
  arguments.json = true;
  return json::parse(shardsim_with(arguments, hooks).out);
}

RunHooks hazard() { return {.wrap_world = plant(sends_first())}; }

// Found with a code, and found again by its token, as the same text.
void check_found(const std::string& file, const RunHooks& hooks, const std::string& code) {
  const Printed text = shardsim_with(exploring(file), hooks);
  INFO(text.out << text.err);
  CHECK(text.exit_code == 4);
  const json found = json_of(exploring(file), hooks)["diagnosis"];
  CHECK(found["code"] == code);
  const std::string token = found["replay"];
  CHECK(contains(text.out, token));
  const Printed again = shardsim_with(replaying(file, token), hooks);
  CHECK(again.exit_code == 4);
  CHECK(again.out == text.out);
  CHECK(json_of(replaying(file, token), hooks)["diagnosis"] == found);
}

}  // namespace

TEST_CASE("exploring says what was proven, in text and JSON") {
  const Printed text = shardsim({kRing, "--explore=pct", "--schedules=4"});
  INFO(text.out << text.err);
  CHECK(text.exit_code == 0);
  CHECK(contains(text.out, "schedules     explored 6 schedules: "));
  const Printed all = shardsim({kRing, "--explore=dpor", "--json"});
  CHECK(all.exit_code == 0);
  const json checks = json::parse(all.out)["checks"];
  const json& last = checks.back();
  CHECK(last["name"] == "schedules");
  CHECK(last["passed"] == true);
  CHECK(contains(last["detail"], "explored 2 schedules"));
}

TEST_CASE("an explored run has the figures of the plain one") {
  json plain = json::parse(shardsim({kPerceptron, "--json"}).out);
  json explored = json::parse(shardsim({kPerceptron, "--json", "--explore=pct"}).out);
  CHECK(plain["metrics"] == explored["metrics"]);
  json buffered = json::parse(
      shardsim({kRing, "--json", "--explore=dpor", "--set", "execution.buffered_sends=true"}).out);
  json usual =
      json::parse(shardsim({kRing, "--json", "--set", "execution.buffered_sends=true"}).out);
  CHECK(buffered["metrics"] == usual["metrics"]);
}

TEST_CASE("what hangs without buffers only is a hazard, and is replayed") {
  check_found(kRing, hazard(), "BUFFER_HAZARD");
}

TEST_CASE("numbers that depend on who is first are found, and replayed") {
  check_found(kPerceptron, depends_on_who_is_first(), "SCHEDULE_DEPENDS");
  RunArguments plain;
  plain.file = kPerceptron;
  CHECK(shardsim_with(plain, depends_on_who_is_first()).exit_code == 0);
}

TEST_CASE("a check that fails under every schedule stays what it is, with a token") {
  const RunHooks hooks{.wrap_world = plant(double_averaging())};
  const json result = json_of(exploring(kPerceptron), hooks);
  CHECK(result.find("diagnosis") == result.end());
  const json& last = result["checks"].back();
  CHECK(last["name"] == "schedules");
  CHECK(last["passed"] == false);
  const std::string detail = last["detail"];
  REQUIRE(contains(detail, "oracle fails with rendezvous sends; replay: "));
  const std::string token = detail.substr(detail.rfind(' ') + 1);
  const Printed again = shardsim_with(replaying(kPerceptron, token), hooks);
  CHECK(again.exit_code == 1);
  CHECK(contains(again.out, detail.substr(0, detail.rfind(';'))));
}

TEST_CASE("a token is of one scenario, and survives that its output goes elsewhere") {
  const std::string token = json_of(exploring(kRing), hazard())["diagnosis"]["replay"];
  const Printed same = shardsim({kRing, "--replay", token, "--set", "output.result=r.json", "--out",
                                 TemporaryFolder().path()});
  CHECK(same.exit_code == 0);  // Without the bug.
  CHECK(contains(same.out, "replayed rendezvous sends: nothing is wrong"));
  const Printed other = shardsim({kPerceptron, "--replay", token});
  CHECK(other.exit_code == 2);
  CHECK(contains(other.err, "E1203"));
  CHECK(contains(other.err, "verify-llama-cp2-ring"));
  const Printed changed = shardsim({kRing, "--replay", token, "--set", "execution.steps=2"});
  CHECK(changed.exit_code == 2);
  CHECK(contains(changed.err, "differs from this one in its values"));
  CHECK(contains(shardsim({kRing, "--replay", "nonsense"}).err, "E1201"));
}

TEST_CASE("schedules are explored in memory, one way at a time") {
  CHECK(shardsim({kRing, "--explore=all"}).exit_code == 2);
  CHECK(shardsim({kRing, "--schedules=3"}).exit_code == 2);
  CHECK(shardsim({kRing, "--explore=pct", "--schedules=0"}).exit_code == 2);
  CHECK(shardsim({kRing, "--explore=pct", "--replay=x"}).exit_code == 2);
  const Printed real = shardsim({kRing, "--explore=pct", "--backend=mpi"});
  CHECK(real.exit_code == 2);
  CHECK(contains(real.err, "E1204"));
}

}  // namespace shardsim::test

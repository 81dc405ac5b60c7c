#include <catch2/catch.hpp>

#include "tests/app/command_fixture.hpp"

// `run` refused scenarios that `check` accepted. One had experts with sequence parallelism on one
// tensor-parallel rank, which check called a field without effect. Another had NCCL algorithms
// that leave a collective none. A third named an output that cannot be written.
namespace shardsim::test {

namespace {

const std::string kUniformExperts = "scenarios/verify-llama-ep4-uniform.json";
const std::string kQuickstart = "scenarios/quickstart.json";

Printed command_with(const std::string& verb, const std::string& file,
                     std::vector<std::string> settings) {
  std::vector<std::string> words = {verb, file, "--json"};
  for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
  return shardsim(words);
}

}  // namespace

TEST_CASE("sequence parallelism on one tensor-parallel rank has no effect on experts") {
  const std::vector<std::string> on = {"parallelism.sequence_parallel=true"};
  const Printed checked = command_with("check", kUniformExperts, on);
  CHECK(checked.exit_code == 0);
  CHECK(contains(checked.err, "sequence_parallel"));
  const Printed ran = command_with("run", kUniformExperts, on);
  CHECK(ran.exit_code == 0);
  const auto hash_of = [](const std::string& json) {
    return json.substr(json.find("\"trace_hash\""), 40);
  };
  CHECK(hash_of(ran.out) == hash_of(command_with("run", kUniformExperts, {}).out));
}

TEST_CASE("experts need a device that computes their router's statistics") {
  const std::vector<std::string> without = {"training.precision=bf16",
                                            "system.device.peak_tflops.fp32=0"};
  for (const std::string verb : {"check", "run"}) {
    const Printed printed = command_with(verb, kUniformExperts, without);
    CHECK(printed.exit_code == 2);
    CHECK(contains(printed.out, "routers weigh experts in fp32, and the device has no peak"));
  }
}

TEST_CASE("NCCL algorithms that leave a collective none are refused by check") {
  // A tree serves all_reduce alone; the quickstart's optimizer scatters and gathers, too.
  const std::vector<std::string> trees = {
      "system.network_model=nccl", "system.nccl.algorithms=tree", "parallelism.zero_stage=1"};
  for (const std::string verb : {"check", "run"}) {
    const Printed printed = command_with(verb, kQuickstart, trees);
    CHECK(printed.exit_code == 2);
    CHECK(contains(printed.out, "\"code\": \"E0407\""));
    CHECK(contains(printed.out, "\"pointer\": \"/system/nccl/algorithms\""));
  }
  const Printed mended =
      command_with("check", kQuickstart,
                   {"system.network_model=nccl", "system.nccl.algorithms=ring;allreduce:tree",
                    "parallelism.zero_stage=1"});
  CHECK(mended.exit_code == 0);
}

TEST_CASE("an output that cannot be written is refused by check") {
  const std::string too_long(300, 'x');
  for (const std::string& output :
       {std::string("docs"), std::string("README.md/below"), too_long}) {
    INFO(output);
    for (const std::string verb : {"check", "run"}) {
      const Printed printed = command_with(verb, kQuickstart, {"output.result=" + output});
      CHECK(printed.exit_code == 2);
      CHECK(contains(printed.out, "\"code\": \"E0901\""));
    }
  }
}

}  // namespace shardsim::test

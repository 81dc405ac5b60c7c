#include <fstream>
#include <sstream>
#include <string>

#include <catch2/catch.hpp>

#include "strategies/checkpoint/checkpoint_error.hpp"
#include "strategies/checkpoint/manifest.hpp"

// docs/guide/checkpoint-format.md says what the code does.
namespace shardsim::test {
namespace {

std::string guide() {
  std::ifstream in("docs/guide/checkpoint-format.md");
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST_CASE("the guide has a row for each error, and names the exit codes") {
  const std::string text = guide();
  int others = 0;
  for (int i = 1; i <= static_cast<int>(CheckpointProblem::no_such_scalar); ++i) {
    const auto problem = static_cast<CheckpointProblem>(i);
    const std::string code(code_of(problem));
    INFO(code);
    CHECK(text.find("| " + code + " |") != std::string::npos);
    const CheckpointError error(problem, "message");
    CHECK(error.code() == code);
    CHECK_FALSE(error.fix().empty());
    others += error.exit_code() == ExitCode::bad_usage ? 1 : 0;
  }
  CHECK(others == 14 - 3);
  CHECK(text.find("Exit codes: 5 for E0803, 3 for E0804 and E0813, else 2.") != std::string::npos);
}

TEST_CASE("the guide names every dtype as manifests and safetensors do") {
  const std::string text = guide();
  std::string ours;
  std::string theirs;
  for (const DType dtype : {DType::fp64, DType::fp32, DType::bf16, DType::fp16, DType::fp8_e4m3,
                            DType::int8, DType::int32, DType::int64}) {
    ours += (ours.empty() ? "" : " ") + std::string(name_of(dtype));
    theirs += (theirs.empty() ? "" : " ") + std::string(payload_name_of(dtype));
  }
  CHECK(text.find("`" + ours + "`") != std::string::npos);
  CHECK(text.find("`" + theirs + "`") != std::string::npos);
}

}  // namespace
}  // namespace shardsim::test

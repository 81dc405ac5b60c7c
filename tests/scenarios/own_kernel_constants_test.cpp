#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include <catch2/catch.hpp>

#include "sim/hardware/kernels/replaced_constants.hpp"

#include "scenarios/kernels_of.hpp"

#include "tests/scenarios/support.hpp"
#include "tests/temporary_folder.hpp"

using namespace shardsim;
using namespace shardsim::testing;

namespace {

const std::string kGpu = "system.device.kernels=h100-sxm";

std::string constants(const std::string& entries) {
  return "system.device.kernel_constants=[" + entries + "]";
}

std::string rate(const std::string& value) {
  return constants(R"({"name": "matmul_rate", "value": )" + value + R"(, "source": "our GPUs"})");
}

}  // namespace

TEST_CASE("a scenario replaces constants of a GPU, each with its source") {
  const auto of = [](const std::vector<std::string>& flags) {
    return kernels_of(loaded(valid_text(), flags).system.device);
  };
  const KernelConstants& h100 = *find_kernel_constants("h100-sxm");
  CHECK(of({}) == nullptr);
  CHECK(of({kGpu}).get() == &h100);
  const auto own = of({kGpu, constants(R"({"name": "matmul_rate", "value": 0.5, "source": "a"},
      // as JSON of ours may have
      {"name": "multiprocessors", "value": 130, "source": "b"})")});
  for (const NamedConstant& constant : constants_of(*own)) {
    const std::string name = constant.name;
    INFO(name);
    const double replaced = name == "matmul_rate"       ? 0.5
                            : name == "multiprocessors" ? 130
                                                        : constant_of(h100, name);
    CHECK(constant.number.value == replaced);
  }
  CHECK(own->matmul_rate.source == std::string("system.device.kernel_constants: a"));
  CHECK(own->multiprocessors.source == std::string("system.device.kernel_constants: b"));
  CHECK(own->tile_halving.source == h100.tile_halving.source);
}

TEST_CASE("a constant that cannot be is refused at its place") {
  const auto problem = [](const std::string& list) {
    return only_problem_of(valid_text(), {kGpu, list});
  };
  const Problem name = problem(constants(R"({"name": "matmul_rat", "value": 1, "source": "a"})"));
  CHECK(name.pointer == "/system/device/kernel_constants/0/name");
  CHECK(name.label == "did you mean \"matmul_rate\"?");
  const Problem large = problem(rate("1.5"));
  CHECK(large.code == "E0229");
  CHECK(large.pointer == "/system/device/kernel_constants/0/value");
  CHECK(large.message == "matmul_rate cannot be 1.5");
  CHECK(large.help == "give a number above 0 and at most 1");
  CHECK(problem(rate("0")).code == "E0229");
  CHECK(problem(constants(R"({"name": "multiprocessors", "value": 1.5, "source": "a"})")).help ==
        "give a whole number from 1 to 100000");
  const Problem source =
      problem(constants(R"({"name": "matmul_rate", "value": 0.5, "source": ""})"));
  CHECK(source.code == "E0229");
  CHECK(source.pointer == "/system/device/kernel_constants/0/source");
  CHECK(problem(constants(R"({"name": "matmul_rate", "value": 0.5})")).code == "E0103");
  const Problem twice = problem(constants(R"({"name": "matmul_rate", "value": 0.5, "source": "a"},
      {"name": "matmul_rate", "value": 0.6, "source": "a"})"));
  CHECK(twice.message == "matmul_rate is replaced by entry 1 already");
  CHECK(twice.pointer == "/system/device/kernel_constants/1/name");
}

TEST_CASE("constants that nothing would read are refused, but for those of a preset") {
  const Problem without = only_problem_of(valid_text(), {rate("0.5")});
  CHECK(without.code == "E0229");
  CHECK(without.pointer == "/system/device/kernel_constants/0");
  CHECK(only_problem_of(valid_text(), {kGpu, rate("0.5"), "system.kernel_model=roofline"}).code ==
        "E0229");
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "systems");
  std::ofstream(folder / "systems/mine.json")
      << replaced(content_of("scenarios/systems/dgx-h100.json"), R"("kernels": "h100-sxm")",
                  R"("kernels": "h100-sxm", "kernel_constants":
                     [{"name": "matmul_rate", "value": 0.5, "source": "a table"}])");
  const std::string text = R"({"schema_version": 1, "name": "calibrated",
    "model": {"family": "mlp", "num_layers": 1, "hidden_size": 8, "vocab_size": 8},
    "system": {"nodes": 2, "preset": "mine"},
    "training": {"global_batch_size": 1024, "micro_batch_size": 1, "precision": "bf16"}})";
  const Scenario calibrated = load_scenario_text(text, folder / "scenario.json");
  CHECK(kernels_of(calibrated.system.device)->matmul_rate.value == 0.5);
  CHECK_NOTHROW(
      load_scenario_text(text, folder / "scenario.json", {"system.kernel_model=roofline"}));
}

TEST_CASE("a GPU has products in fewer bits where a scenario gives their share") {
  const std::vector<std::string> fp4 = {kGpu, "training.precision=nvfp4",
                                        "system.device.peak_tflops.bf16=1000",
                                        "system.device.peak_tflops.fp4=9000"};
  const auto has_products = [&](const char* value) {
    std::vector<std::string> flags = fp4;
    if (value != nullptr) {
      flags.push_back(constants(R"({"name": "fp4_share", "source": "a", "value": )" +
                                std::string(value) + "}"));
    }
    return std::ranges::none_of(problems_of(valid_text(), flags), [](const Problem& problem) {
      return problem.message == "system.device.kernels h100-sxm has no products in fp4";
    });
  };
  CHECK_FALSE(has_products(nullptr));
  CHECK_FALSE(has_products("0"));
  CHECK(has_products("0.7"));
}

TEST_CASE("attention is priced by a library that the GPU has rows of") {
  const std::string a100 = "system.device.kernels=a100-sxm";
  const Problem problem = only_problem_of(valid_text(), {a100, "system.attention_library=flash3"});
  CHECK(problem.code == "E0230");
  CHECK(problem.pointer == "/system/attention_library");
  CHECK(problem.message == "there are no measurements of flash3 on a100-sxm");
  CHECK(problem.help ==
        "choose one that it has (flash2), or measure it: shardsim calibrate kernels");
  CHECK(problems_of(valid_text(), {a100, "system.attention_library=flash2"}).empty());
  CHECK(problems_of(valid_text(), {kGpu, "system.attention_library=flash3"}).empty());
  // A scenario's own rates will do, but not one of them.
  const std::string forward =
      R"({"name": "flash3_forward_rate", "value": 0.5, "source": "our GPUs"})";
  const std::string backward =
      R"(, {"name": "flash3_backward_rate", "value": 0.4, "source": "our GPUs"})";
  const std::string flash3 = "system.attention_library=flash3";
  CHECK(only_problem_of(valid_text(), {a100, flash3, constants(forward)}).code == "E0230");
  CHECK(problems_of(valid_text(), {a100, flash3, constants(forward + backward)}).empty());
}

TEST_CASE("every constant that is built in is one that a scenario may have") {
  for (const KernelConstants& constants : all_kernel_constants()) {
    for (const NamedConstant& constant : constants_of(constants)) {
      INFO(constants.name << " " << constant.name << " " << constant.number.value);
      CHECK(limits_of_constant(constant.name).allow(constant.number.value));
      CHECK(constant_of(constants, constant.name) == constant.number.value);
    }
  }
}

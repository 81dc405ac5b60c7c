#include "sim/hardware/workspaces.hpp"

#include <optional>

#include <catch2/catch.hpp>

#include "sim/hardware/architecture.hpp"
#include "sim/hardware/software.hpp"

#include "tests/units.hpp"

// Workspaces of libraries of matrix products.
namespace shardsim::test {

namespace {

const Architecture& architecture(const char* name) { return *find_architecture(name); }

Workspaces of(const char* software, const char* name) {
  return workspaces_of(find_software(software), architecture(name), std::nullopt);
}

}  // namespace

TEST_CASE("an architecture is told by the device's name") {
  const auto name_of = [](const char* device) {
    return std::string(architecture_of_device(device).name);
  };
  CHECK(name_of("NVIDIA A100 SXM 80GB") == "ampere");
  CHECK(name_of("NVIDIA H100 SXM 80GB") == "hopper");
  CHECK(name_of("NVIDIA H20") == "hopper");
  CHECK(name_of("NVIDIA GH200 96GB") == "hopper");
  CHECK(name_of("NVIDIA GB200 186GB") == "blackwell");
  CHECK(name_of("NVIDIA GB300 288GB") == "blackwell_ultra");
  CHECK(name_of("AMD Instinct MI325X") == "cdna3");
  CHECK(name_of("AMD Instinct MI355X") == "cdna4");
  CHECK(name_of("Google TPU v6e") == "tpu");
  CHECK(name_of("NVIDIA V100") == "other");
  CHECK(name_of("device") == "other");
  CHECK(name_of("") == "other");
  CHECK(find_architecture("volta") == nullptr);
}

TEST_CASE("K15: PyTorch gives a workspace to each of two handles") {
  for (const char* software : {"none", "torchtitan-2024", "composer-2023"}) {
    const Workspaces before = of(software, "ampere");
    CHECK(before.handles == 2);
    CHECK(before.handle_bytes == 8'519'680);
    CHECK(before.bytes() == 2 * 8'519'680);
    for (const char* name : {"hopper", "blackwell", "blackwell_ultra"}) {
      CHECK(of(software, name).bytes() == 2 * 32 * kMiB);
    }
    CHECK(of(software, "cdna3").handle_bytes == 128 * kMiB);
    CHECK(of(software, "other").bytes() == 0);
    CHECK(of(software, "other").blocks().empty());
  }
}

TEST_CASE("K15: Transformer Engine has one of its own") {
  CHECK(of("megatron-core-2023", "ampere").engine_bytes == 4 * kMiB);
  CHECK(of("megatron-core-2023", "hopper").engine_bytes == 32 * kMiB + 1024);
  CHECK(of("megatron-core-2023", "hopper").blocks() ==
        std::vector<std::int64_t>{32 * kMiB, 32 * kMiB, 32 * kMiB + 1024});
}

TEST_CASE("K15: before PyTorch had workspaces they were part of the context") {
  CHECK(of("megatron-lm-2021", "ampere").bytes() == 0);
  CHECK(of("megatron-deepspeed-2022", "ampere").bytes() == 0);
}

TEST_CASE("K15: CUBLAS_WORKSPACE_CONFIG says the size of a handle's workspace") {
  CHECK(parse_workspace_config(":4096:8") == 32 * kMiB);
  CHECK(parse_workspace_config(":4096:2:16:8") == 8'519'680);
  CHECK(parse_workspace_config(":0:0") == 0);
  const char* const bad[] = {"",
                             "4096:8",
                             ":4096",
                             ":4096:",
                             ":4096:8:",
                             ":-1:8",
                             ":4096:8 ",
                             ":a:8",
                             "::8",
                             ":4096:8;",
                             ":9223372036854775807:2",
                             ":1:9223372036854775807"};
  for (const char* text : bad) {
    INFO(text);
    CHECK_FALSE(parse_workspace_config(text));
  }
  const std::int64_t config = 16 * kMiB;
  CHECK(workspaces_of(nullptr, architecture("tpu"), config).bytes() == 0);
  CHECK(workspaces_of(nullptr, architecture("hopper"), config).bytes() == 2 * config);
  // It is cuBLAS's: other libraries' and Transformer Engine's stay.
  CHECK(
      workspaces_of(find_software("megatron-core-2023"), architecture("ampere"), config).bytes() ==
      2 * config + 4 * kMiB);
}

}  // namespace shardsim::test

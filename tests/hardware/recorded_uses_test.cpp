#include <fstream>
#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/hardware/software.hpp"

// The file of recorded kernels, and what the program was built with.
namespace shardsim {
namespace {

KernelFamily family_named(const std::string& name) {
  for (std::size_t i = 0; i < kKernelFamilies; ++i) {
    if (name_of(static_cast<KernelFamily>(i)) == name) return static_cast<KernelFamily>(i);
  }
  FAIL(name);
  return KernelFamily::other;
}

nlohmann::json recorded_file() {
  std::ifstream file("sim/hardware/software/recorded.json");
  return nlohmann::json::parse(file);
}

const Software& row_named(const std::string& name) {
  const Software* software = find_software(name);
  REQUIRE(software != nullptr);
  return *software;
}

}  // namespace

TEST_CASE("a row has the kernels and bytes that were recorded of its code") {
  std::size_t families = 0;
  const nlohmann::json file = recorded_file();
  for (const auto& [name, row] : file.items()) {
    const Software& software = row_named(name);
    for (const auto& [family_name, family] : row.at("families").items()) {
      INFO(name << ' ' << family_name);
      const KernelFamily which = family_named(family_name);
      const KernelUse& use = software.use(which);
      CHECK(use.kernels == family.at("kernels").get<double>());
      CHECK(use.traffic ==
            family.at("bytes").get<double>() / family.at("of_ideal_bytes").get<double>());
      CHECK(source_of(software, which) == row.at("source").get<std::string>());
      ++families;
    }
  }
  CHECK(families >= 28);
}

TEST_CASE("a row keeps for backward what was recorded beyond ideal kernels") {
  const auto more = [](const nlohmann::json& row, const char* family) {
    const nlohmann::json& found = row.at("families").at(family);
    return found.at("kept_bytes").get<double>() - found.at("of_ideal_kept").get<double>();
  };
  const nlohmann::json file = recorded_file();
  for (const char* name :
       {"torchtitan-2024", "deepspeed-2024", "internevo-2023", "composer-2023"}) {
    INFO(name);
    const FrameworkMemory& memory = row_named(name).memory;
    CHECK(memory.norm_kept_bytes == more(file.at(name), "norm"));
    CHECK(memory.activation_kept_bytes == more(file.at(name), "activation"));
  }
  // An eager RMS norm keeps its input in fp32 and its result before the weight: 6 bytes, not 2.
  CHECK(row_named("torchtitan-2024").memory.norm_kept_bytes == 4.0);
  CHECK(row_named("composer-2023").memory.norm_kept_bytes == 0.0);
}

TEST_CASE("what was not recorded has the source of its row") {
  const Software& newest = row_named("megatron-core-2025");
  CHECK(source_of(newest, KernelFamily::norm) == std::string(newest.source));
  CHECK(source_of(row_named("internevo-2023"), KernelFamily::rotary) ==
        std::string(row_named("internevo-2023").source));
}

}  // namespace shardsim

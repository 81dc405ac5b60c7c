#include <cstdint>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "scenarios/scenario.hpp"

#include "tests/exchange/exchange_fixture.hpp"

// Multi-token prediction of Hugging Face's files: its blocks are as the last layer is, or left out.
namespace shardsim::test {

namespace {

// A published file with one piece of its text replaced.
Printed import_changed(const std::string& name, const std::string& old, const std::string& text) {
  const TemporaryFolder folder;
  std::string file = content_of(kData + name + ".config.json");
  const std::size_t at = file.find(old);
  REQUIRE(at != std::string::npos);
  write(folder / "config.json", file.replace(at, old.size(), text));
  return shardsim({"import", "hf", folder / "config.json"});
}

}  // namespace

TEST_CASE("MiMo-V2's prediction has windows and dense MLPs, and is left out by size",
          "[exchange]") {
  constexpr std::int64_t kHidden = 4096;
  constexpr std::int64_t kAttention = kHidden * (64 * (192 + 128) + 8 * (192 + 128));
  constexpr std::int64_t kDense = 3 * kHidden * 16384;
  constexpr std::int64_t kVectors = 5 * kHidden + 64;  // Norms, and sinks.
  constexpr std::int64_t kMatrices = 2 * kHidden * kHidden + kAttention + kDense;
  const Printed printed =
      import_changed("mimo-v2-flash", R"("num_hidden_layers": 48)",
                     R"("num_hidden_layers": 48, "num_nextn_predict_layers": 3)");
  INFO(printed.err);
  CHECK(printed.exit_code == 0);
  CHECK_FALSE(contains(printed.out, "mtp_num_layers"));
  CHECK(contains(printed.err, "308778780864 parameters"));
  CHECK(contains(printed.err,
                 fmt::format("left out: {} parameters and {} FLOPs per token forward",
                             3 * (kMatrices + kVectors), 3 * 2 * (kMatrices + 152576 * kHidden))));
  CHECK(contains(printed.err, "windowed attention and a dense MLP"));
}

TEST_CASE("Nemotron 3's prediction has two layers of one branch, and is left out by size",
          "[exchange]") {
  constexpr std::int64_t kHidden = 4096;
  constexpr std::int64_t kLatent = 1024;
  constexpr std::int64_t kAttention = kHidden * (32 * 256 + 2 * 256);
  constexpr std::int64_t kExpert = 2 * 2688 * kLatent;
  constexpr std::int64_t kRouted = kHidden * 512 + 2 * 5376 * kHidden + 2 * kHidden * kLatent;
  constexpr std::int64_t kShared = 2 * kHidden * kHidden + kAttention + kRouted;
  const std::string size = fmt::format("left out: {} parameters and {} FLOPs per token forward",
                                       kShared + 512 * kExpert + 5 * kHidden + 512,
                                       2 * (kShared + 22 * kExpert + 131072 * kHidden));
  for (const char* more : {"", "--approximate"}) {
    std::vector<std::string> words = {"import", "hf", kData + "nemotron-3-super.config.json"};
    if (*more != '\0') words.emplace_back(more);
    const Printed printed = shardsim(words);
    INFO(printed.err);
    CHECK(printed.exit_code == 0);
    CHECK_FALSE(contains(printed.out, "mtp_num_layers"));
    CHECK(contains(printed.err, size));
    CHECK(contains(printed.err, "in depths of attention, experts"));
  }
  const std::string letters = R"("mtp_hybrid_override_pattern": "*E")";
  const Printed listed = import_changed("nemotron-3-super", letters,
                                        R"("mtp_layers_block_type": ["attention", "moe"])");
  CHECK(contains(listed.err, size));
  // The block types of NemotronHConfig.
  CHECK(contains(import_changed("nemotron-3-super", letters, R"("output_dropout": 0)").err, size));
  // A block as the last layer is.
  const Printed same =
      import_changed("nemotron-3-super", letters, R"("mtp_hybrid_override_pattern": "E")");
  CHECK(same.exit_code == 0);
  CHECK(contains(same.out, R"("mtp_num_layers": 1)"));
  const Printed unknown = import_changed("nemotron-3-super", letters,
                                         R"("mtp_layers_block_type": ["attention", "conv"])");
  CHECK(unknown.exit_code == 2);
  CHECK(contains(unknown.err, "multi-token prediction by layers of conv"));
}

}  // namespace shardsim::test

#include "tests/validation/own_table.hpp"

#include <fstream>

#include <catch2/catch.hpp>

#include "tests/app/command_fixture.hpp"

namespace shardsim::test {
namespace {

// Line 4 has no time, line 5 a degree that does not divide the ranks, line 6 is not confirmed, line
// 7 has a mode that the mapping refuses.
constexpr const char* kTable = R"(gpus,tp,batch,mode,time_ms,memory_gb,source,confirmed
8,2,16,plain,10,2,"paper, table 1",yes
8,1,16,plain,20,4,"paper, table 1",yes
8,2,16,plain,,4,"paper, table 1",yes
8,3,16,plain,20,4,"paper, table 1",yes
8,2,16,plain,30,,memory,no
8,2,16,odd,30,3,"paper, table 1",yes
)";

constexpr const char* kMapping = R"({
  "title": "A small model",
  "table": "small.csv",
  "trust": "A",
  "assuming": "nothing",
  "sample_stride": 3,
  "label": ["gpus", "tp"],
  "measured": {
    "step_time_s": {"product": ["time_ms"], "over": [1000]},
    "peak_memory_bytes": {"product": ["memory_gb", 1000000000]}
  },
  "scenario": {
    "schema_version": 1,
    "model": {"family": "gpt2", "num_layers": 4, "hidden_size": 256, "num_attention_heads": 8,
              "vocab_size": 1024, "seq_len": 128},
    "system": "dgx-a100",
    "training": {"micro_batch_size": 1}
  },
  "fields": {
    "system.ranks": {"column": "gpus"},
    "parallelism.tp": {"column": "tp"},
    "training.global_batch_size": {"column": "batch"},
    "training.recompute": {"column": "mode",
                           "words": {"plain": "none", "odd": {"cannot": "odd is not built"}}}
  },
  "rows": [{"where": {"tp": "1"}, "set": {"training.recompute": "full"}}]
}
)";

void edit(const std::string& file, const std::string& part, const std::string& by) {
  std::string text = content_of(file);
  const std::size_t at = text.find(part);
  REQUIRE(at != std::string::npos);
  REQUIRE(text.find(part, at + 1) == std::string::npos);
  std::ofstream(file, std::ios::binary) << text.replace(at, part.size(), by);
}

}  // namespace

OwnTable::OwnTable() {
  std::ofstream(table(), std::ios::binary) << kTable;
  std::ofstream(mapping(), std::ios::binary) << kMapping;
}

void OwnTable::edit_mapping(const std::string& part, const std::string& by) {
  edit(mapping(), part, by);
}

void OwnTable::edit_table(const std::string& part, const std::string& by) {
  edit(table(), part, by);
}

std::vector<std::string> OwnTable::words(const std::vector<std::string>& more) const {
  std::vector<std::string> words = {"validate", "--folder", folder_.path()};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace shardsim::test

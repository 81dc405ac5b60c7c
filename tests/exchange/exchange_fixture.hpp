#pragma once

#include <string>
#include <vector>

#include "scenarios/scenario.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/temporary_folder.hpp"

namespace shardsim::test {

inline const std::string kData = "tests/exchange/data/";

/// `shardsim import ARGUMENTS...`, which must succeed: what was printed, and the scenario that it
/// loads as.
struct Imported {
  Printed printed;
  Scenario scenario;
};
[[nodiscard]] Imported import_file(std::vector<std::string> arguments);

/// Exports the scenario below into `folder`; must succeed.
void export_into(const TemporaryFolder& folder, const std::string& kind);

/// Eight ranks that send in every way: collectives, pipeline stages, and rings of attention.
inline const std::string kSmall = R"({
  "schema_version": 1, "name": "small",
  "model": {"family": "llama", "num_layers": 2, "hidden_size": 32, "ffn_hidden_size": 64,
            "num_attention_heads": 4, "vocab_size": 64, "seq_len": 16},
  "system": {"preset": "dgx-h100", "nodes": 1},
  "parallelism": {"tp": 2, "pp": 2, "cp": 2, "sequence_parallel": true},
  "training": {"global_batch_size": 2, "micro_batch_size": 1, "max_grad_norm": 1}
})";

}  // namespace shardsim::test

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/scenario.hpp"
#include "sim/app/desk/search/search_space.hpp"

// What a search is asked for, and the scenario that all its candidates are of.
namespace shardsim {

enum class Objective : std::uint8_t { time, memory, cost };

struct SearchRequest {
  std::string model;  ///< A preset, or a JSON file: a scenario, or a model's section.
  std::string gpu;    ///< "h100", or a system preset.
  std::int64_t num_gpus = 0;
  std::optional<std::int64_t> seq_len;
  std::optional<std::int64_t> global_batch_size;
  std::string precision;               ///< Empty: as the model's file says, else bf16.
  std::vector<std::string> overrides;  ///< "a.b=c"; those of a searched field fix it.
  std::vector<std::string> fixed;      ///< "tp=4,8"
  Objective objective = Objective::time;
  int top = 10;
  /// The front is looked for among layouts whose step is at most so many times the fastest one's.
  double front_within = 1.25;
  double usd_per_gpu_hour = 0;  ///< 0: not said.
};

/// A text that the scenario's reader takes, with what is common to all candidates.
struct SearchBase {
  std::string text;
  std::string file;                    ///< Where presets are looked for beside, and for errors.
  std::vector<std::string> overrides;  ///< Those of a candidate come after them.
  FixedAxes fixed;
  /// Model, machine and batch; its layout is none of the candidates.
  Scenario scenario;
  /// What was taken because nobody said otherwise, in sentences.
  std::vector<std::string> assumptions;
  /// What the model's file says and the search does not take, in sentences.
  std::vector<std::string> ignored;
};

/// Throws UsageError E1321 (model), E1322 (GPU), E1323 (number of GPUs), E1325 (fixed), E1326
/// (family), E1331 (global batch), and ScenarioError.
[[nodiscard]] SearchBase prepare_search(const SearchRequest& request);

/// The scenario of one candidate. Throws ScenarioError where the reader refuses it.
[[nodiscard]] Scenario scenario_of(const SearchBase& base, const Candidate& candidate);

}  // namespace shardsim

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "scenarios/scenario.hpp"
#include "sim/search/given_layout.hpp"
#include "sim/search/search_space.hpp"

// The request of a search, and the scenario that all its candidates share.
namespace shardsim {

enum class Objective : std::uint8_t { time, memory, cost };

struct SearchRequest {
  /// A preset, or a JSON file: a scenario, a model's section, or a config.json of Hugging Face.
  std::string model;
  std::string gpu;  ///< "h100", or a system preset.
  std::int64_t num_gpus = 0;
  std::optional<std::int64_t> seq_len;
  std::optional<std::int64_t> global_batch_size;
  std::string precision;               ///< Empty: as in the model's file, else bf16.
  std::vector<std::string> overrides;  ///< "a.b=c"; those of a searched field fix it.
  std::vector<std::string> fixed;      ///< "tp=4,8"
  std::optional<std::string> against;  ///< A layout to rank, see read_given_layout().
  bool approximate = false;  ///< The nearest model, where a config.json's cannot be expressed.
  Objective objective = Objective::time;
  int top = 10;
  /// The front contains only layouts with a step of at most this many times the fastest one's.
  double front_within = 1.25;
  /// 0: as in the model's file, where that gives tokens, too.
  double usd_per_gpu_hour = 0;
  std::optional<double> tokens;  ///< That the training takes; none: as in the model's file.
  /// The default batch suits all of these numbers of GPUs; empty: num_gpus alone.
  std::vector<std::int64_t> batch_for;
  double time_limit_s = 60;  ///< When the caller stops the search; 0: never.
};

/// A JSON file that names the model of a search: a scenario, or the section "model" of one. The
/// fields that a search decides are removed from it; all else keeps its place, so that errors name
/// the file's lines.
struct SearchFile {
  struct Assumed {
    std::string field;  ///< "model.seq_len"
    std::string words;
  };
  std::string text;          ///< A scenario, for the reader.
  bool is_imported = false;  ///< From a config.json: lines of the text are not the file's.
  std::optional<std::int64_t> global_batch_size;
  std::vector<std::string> ignored;   ///< The removed fields with reasons, in sentences.
  std::vector<std::string> warnings;  ///< Parts of a config.json that the model lacks.
  std::vector<Assumed> assumed;       ///< Values that a config.json does not give.
};

/// Throws ScenarioError, UsageError E1331 for a global batch that is no whole number, and what
/// import_hf_model() throws; `approximate` is handed to it.
[[nodiscard]] SearchFile read_search_file(const std::string& path, bool approximate);

/// Sequences per step where none are given: 4 Ki tokens for each GPU of the most, from 1 Mi to 16
/// Mi tokens, as Llama trained (4 Mi tokens on 2,048 GPUs, Touvron et al. 2023; 16 Mi on 8,192 and
/// 16,384, Dubey et al. 2024, table 4). It is rounded up to a multiple of the odd factors that the
/// numbers of GPUs have, so that data parallelism may have them. REQUIRES: gpus is not empty.
[[nodiscard]] std::int64_t default_batch(std::int64_t seq_len, std::span<const std::int64_t> gpus);

/// The whole of `words` as a number of sequences. Throws UsageError E1331.
[[nodiscard]] std::int64_t batch_of_words(const std::string& words);

/// A text that the scenario's reader takes, with the fields that all candidates share.
struct SearchBase {
  std::string text;
  std::string model_file;  ///< Empty: the model is a preset.
  std::string file;        ///< Presets are searched beside this file; also named in errors.
  std::vector<std::string> overrides;  ///< Those of a candidate come after them.
  FixedAxes fixed;
  /// Model, machine and batch; its layout is none of the candidates.
  Scenario scenario;
  /// Values assumed because none was given, in sentences.
  std::vector<std::string> assumptions;
  /// Fields of the model's file that the search does not use, in sentences.
  std::vector<std::string> ignored;
  /// Parts of a config.json that the model lacks, in sentences.
  std::vector<std::string> warnings;
  std::optional<GivenLayout> given;          ///< The layout that SearchRequest::against names.
  std::vector<SearchFile::Assumed> assumed;  ///< Those that no override gives are assumptions.
};

/// Throws UsageError E1321 (model), E1322 (GPU), E1323 (number of GPUs), E1325 (fixed), E1326
/// (family), E1331 (global batch), E1340 (given layout), and ScenarioError.
[[nodiscard]] SearchBase prepare_search(const SearchRequest& request);

/// The scenario of one candidate. Throws ScenarioError if the reader refuses it.
[[nodiscard]] Scenario scenario_of(const SearchBase& base, const Candidate& candidate);

}  // namespace shardsim

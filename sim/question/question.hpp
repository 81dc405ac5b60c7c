#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/search/search_request.hpp"

// The planner's question: which number of which GPUs trains a model on so many tokens in time and
// within a budget. Each pair of a number and a kind is a machine, and has a search of its own.
namespace shardsim {

/// A machine that the question asks about.
struct MachineChoice {
  std::string gpu;  ///< As it was asked for: "h100", or a system preset.
  std::int64_t num_gpus = 0;
  std::optional<double> usd_per_gpu_hour;
};

struct Question {
  /// All that machines share. Its gpu, num_gpus and price are those of none.
  SearchRequest shared;
  std::vector<MachineChoice> machines;
  std::optional<double> tokens;
  std::optional<double> deadline_days;
  std::optional<double> budget_usd;
};

/// The words of the command line, not yet taken apart.
struct QuestionWords {
  std::string gpus;              ///< "1024", "256..2048" or "256,512"
  std::string gpu;               ///< "h100,b200"
  std::string usd_per_gpu_hour;  ///< "2.5", "h100=2.5,b200=5", or empty
  std::string tokens;            ///< "10T" or empty
  std::string deadline;          ///< "90d" or empty
  std::string budget;            ///< "6M" or empty
};

/// Numbers of GPUs, each once, in the order of the words. "A..B" doubles from A to B. Throws
/// UsageError E1323.
[[nodiscard]] std::vector<std::int64_t> read_gpu_counts(const std::string& words);

/// Parts of a list, each once. Throws UsageError E1336 for an empty part, or one that comes twice.
[[nodiscard]] std::vector<std::string> read_list(const std::string& words,
                                                 const std::string& option);

/// Dollars for an hour of one GPU, by its kind as `gpus` has it; 0: not known. Throws UsageError
/// E1330 for a word that is no price, and E1337 for two prices of a kind, or one of a kind that is
/// not asked about.
[[nodiscard]] std::map<std::string, double> read_prices(const std::string& words,
                                                        const std::vector<std::string>& gpus);

/// Throws UsageError as the readers above.
[[nodiscard]] Question read_question(const QuestionWords& words, const SearchRequest& shared);

/// Whether it asks for a choice between machines, or for a verdict on one: not for layouts alone.
[[nodiscard]] bool asks_for_machines(const Question& question);

/// The request of one machine's search. All machines have the same global batch.
[[nodiscard]] SearchRequest request_of(const Question& question, const MachineChoice& machine);

}  // namespace shardsim

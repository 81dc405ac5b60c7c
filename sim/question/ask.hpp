#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/question/answer.hpp"

// Answers a planner's question: one search for each machine, all within one time limit.
namespace shardsim {

/// A machine that is ready to be searched.
struct PreparedMachine {
  MachineChoice machine;
  SearchRequest request;
  SearchBase base;
  std::string no_layout;  ///< Why its number of GPUs is none of this kind; then it has no base.
};

/// Prices and tokens are also those of the model's file, or of --set. Throws what prepare_search()
/// throws, but for a machine that the reader refuses while it takes others; UsageError E1336
/// for two names of one machine, and E1338 for a deadline or a budget without tokens, or a budget
/// without the price of each machine.
[[nodiscard]] std::vector<PreparedMachine> prepare_machines(const Question& question);

/// The base of the first machine that has layouts: model, batch and precision are those of
/// all. REQUIRES: prepare_machines() made them.
[[nodiscard]] const SearchBase& shared_base(const std::vector<PreparedMachine>& machines);
/// The warnings of all machines, each once.
[[nodiscard]] std::vector<std::string> warnings_of(const std::vector<PreparedMachine>& machines);

struct AskHooks {
  int jobs = 1;
  std::function<double()> seconds;   ///< A clock that any thread may read.
  std::function<SearchStop()> stop;  ///< As SearchHooks::stop; it knows the time limit.
  /// Called now and then, always by the same thread, with words for a line of progress.
  std::function<void(const std::string& words)> on_progress;
  /// Called once, by that thread, when each machine's search had its first turn, unless the
  /// answer is complete by then.
  std::function<void(const Answer& first)> on_first;
};

/// The answer for machines that prepare_machines() made from the question.
[[nodiscard]] Answer ask(const Question& question, const std::vector<PreparedMachine>& machines,
                         const AskHooks& hooks);

}  // namespace shardsim

#pragma once

#include <string>
#include <vector>

#include "sim/console/parallel.hpp"

#include "sim/question/question.hpp"

// The command line of `shardsim plan`, for its two kinds of answers: layouts of one machine, and a
// choice between machines.
namespace shardsim {

struct Console;

struct PlanArguments {
  SearchRequest request;  ///< Its overrides are made by apply_words().
  QuestionWords words;
  std::vector<std::string> set;
  std::string software;
  std::string failures;
  std::string memory_margin;
  std::string objective = "time";
  std::string emit;
  std::string out;
  std::string csv;
  std::string report;
  int jobs = default_jobs();
  bool json = false;
  bool wide = false;
  bool ascii = false;
  bool quiet = false;
};

/// Makes the overrides of the request from the options that set fields of the scenario. Throws
/// UsageError E1335 and E1339.
void apply_words(PlanArguments& arguments);

/// The command line for this machine, without the options that have their default.
[[nodiscard]] std::string plan_command(const PlanArguments& arguments,
                                       const MachineChoice& machine);

/// Checks the paths that are written before a search of minutes, not after it.
void check_plan_paths(const PlanArguments& arguments, const SearchBase& base);

/// Writes a file that was asked for: whole, or not at all.
void write_plan_file(const std::string& path, const std::string& text);

/// Answers a question about several machines, or about a deadline or a budget. Returns the exit
/// code.
int answer_question(const PlanArguments& arguments, const Question& question,
                    const Console& console);

}  // namespace shardsim

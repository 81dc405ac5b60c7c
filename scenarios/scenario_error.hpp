#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sim/kernel/error.hpp"

#include "scenarios/problem.hpp"

// The loader's exception: every problem of a scenario at once.
namespace shardsim {

/// Exit code 2, or 3 if the scenario is legal and only exceeds limits. code(), what() and fix() are
/// those of the first problem; problems() has all of them, errors of syntax and fields first.
class ScenarioError : public Error {
 public:
  /// REQUIRES: !problems.empty().
  ScenarioError(std::vector<Problem> problems, std::size_t num_dropped);

  [[nodiscard]] const std::vector<Problem>& problems() const noexcept { return problems_; }
  /// Problems beyond those kept.
  [[nodiscard]] std::size_t num_dropped() const noexcept { return num_dropped_; }

  /// All problems as a compiler would print them, and a closing line with their number.
  [[nodiscard]] std::string render_all() const;
  /// A JSON array of {code, severity, file, line, column, pointer, message, help, fix}. A problem
  /// in a flag or an unreadable file has no line and column. `fix` is null or {message, edits:
  /// [{offset, length, text}]}, in bytes of the file: the edits of `shardsim fix`.
  [[nodiscard]] std::string to_json() const;
  /// A line for each, as GitHub Actions shows them beside the changed lines:
  /// "::error file=a.json,line=9,col=20,title=E0107::unknown field".
  [[nodiscard]] std::string to_annotations() const;

 private:
  std::vector<Problem> problems_;
  std::size_t num_dropped_;
};

/// Throws one problem at one place, for readers that stop at the first.
[[noreturn]] void throw_problem(const std::string& code, const Span& span,
                                const std::string& message, const std::string& help);

}  // namespace shardsim

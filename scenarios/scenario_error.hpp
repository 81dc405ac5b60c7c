#pragma once

// The problems of a scenario and their places. The loader goes on after a problem, so that one run
// reports all of them; the list stops growing at kMaxProblems. Its exception has them all.

#include <cstddef>
#include <string>
#include <vector>

#include "sim/kernel/error.hpp"

#include "scenarios/source_text.hpp"

namespace shardsim {

/// `text` instead of `length` bytes from byte `offset` of a file.
struct TextEdit {
  std::size_t offset = 0;
  std::size_t length = 0;
  std::string text;
};

/// The edits of `shardsim fix`, where they cannot change the meaning. No edits: no fix is certain
/// without asking.
struct Fix {
  std::string message;  // "write \"tp\" for \"tensor_model_parallel_size\""
  std::vector<TextEdit> edits;
};

/// Codes by family: E00xx file and JSON, E01xx one field, E02xx fields that do not fit together,
/// E03xx a limit. Limits of scenarios begin at E0351: the lower ones are the engine's. Each code
/// stands for one kind of mistake and keeps its meaning for ever.
struct Problem {
  std::string code;
  std::string file;     // as the user named it; for --set the flag itself
  int line = 0;         // from 1; 0 when the place is a flag or no text could be read
  int column = 0;       // from 1
  std::string pointer;  // JSON pointer, "" for the whole document
  std::string message;  // what is wrong, with the values
  std::string label;    // a few words beside the carets, may be empty
  std::string help;     // the way out, may be empty
  Excerpt excerpt;      // text is empty when there is no line to show
  Fix fix;              // of `file`
};

/// In the style of a compiler: code and message, place, the line with carets, help. Lines have at
/// most `width` columns, as far as words allow; 0: any number.
std::string render(const Problem& problem, std::size_t width = 0);

class ProblemList {
 public:
  static constexpr std::size_t kMaxProblems = 50;

  /// Takes position, file and excerpt from `span`; a null source leaves them empty. `fix` edits the
  /// text of `span`; it is dropped if that is a flag or a preset.
  void add(const std::string& code, const Span& span, const std::string& pointer,
           const std::string& message, const std::string& help = "", const std::string& label = "",
           Fix fix = {});
  /// A problem with a file that could not be read at all.
  void add_file(const std::string& code, const std::string& file, const std::string& message,
                const std::string& help = "");

  bool empty() const { return problems_.empty(); }
  /// Throws ScenarioError with all of them, if there are any.
  void throw_if_any() const;
  bool full() const { return problems_.size() >= kMaxProblems; }
  std::size_t num_dropped() const { return num_dropped_; }
  const std::vector<Problem>& problems() const { return problems_; }

 private:
  std::vector<Problem> problems_;
  std::size_t num_dropped_ = 0;
};

/// `parent` + "/" + `key`, with "~" and "/" of the key escaped as RFC 6901 says.
std::string pointer_to(const std::string& parent, const std::string& key);

/// Exit code 2, or 3 if the scenario is legal and only exceeds limits. code(), what() and fix() are
/// those of the first problem; problems() has all of them, errors of syntax and fields first.
class ScenarioError : public Error {
 public:
  /// REQUIRES: !problems.empty().
  ScenarioError(std::vector<Problem> problems, std::size_t num_dropped);

  [[nodiscard]] const std::vector<Problem>& problems() const noexcept { return problems_; }
  /// Problems beyond those kept.
  [[nodiscard]] std::size_t num_dropped() const noexcept { return num_dropped_; }

  /// All problems as a compiler would print them, and a closing line with their number. `width`: as
  /// for render().
  [[nodiscard]] std::string render_all(std::size_t width = 0) const;
  /// {"errors": [...]} with a {code, severity, file, line, column, pointer, message, help, fix}
  /// each, and "more" with the number of problems that are not in it, if there are any. A problem
  /// in a flag or an unreadable file has no line and column. `fix` is null or {message, edits:
  /// [{offset, length, text}]}, in bytes of the file: the edits of `shardsim fix`.
  [[nodiscard]] std::string to_json() const;
  /// A line for each, as GitHub Actions shows them beside the changed lines:
  /// "::error file=a.json,line=9,col=20,title=E0107::unknown field". `file=` is given for a file of
  /// the checkout alone (GITHUB_WORKSPACE, if set): with another, GitHub shows nothing.
  [[nodiscard]] std::string to_annotations() const;

 private:
  std::vector<Problem> problems_;
  std::size_t num_dropped_;
};

/// Throws one problem at one place, for readers that stop at the first.
[[noreturn]] void throw_problem(const std::string& code, const Span& span,
                                const std::string& message, const std::string& help);

}  // namespace shardsim

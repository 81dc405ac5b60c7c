#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sim/accuracy/nccl_tests_table.hpp"

// Lines of a launcher's output, without what the launcher puts before them. Those before a table
// describe the run: the test's name, the ranks and their hosts.
namespace shardsim {

struct LogLine {
  std::size_t offset = 0;  ///< The offset of the text behind the launcher's mark.
  std::string_view text;
  std::vector<std::string_view> words;

  [[nodiscard]] bool is_comment() const { return !words.empty() && words.front().front() == '#'; }
  /// Word `i`, or nothing behind the last.
  [[nodiscard]] std::string_view word(std::size_t i) const {
    return i < words.size() ? words[i] : std::string_view();
  }
  /// Place of a word, or words.size().
  [[nodiscard]] std::size_t find(std::string_view word) const;
};

/// All lines. Marks that are left out: "[1,0]<stdout>:" (Open MPI), "[0]" (MPICH), "0:" (Slurm). A
/// "#" that sticks to a word is a word of its own where it begins the line.
[[nodiscard]] std::vector<LogLine> log_lines(std::string_view text);

class RunPreamble {
 public:
  explicit RunPreamble(const SourceText* source) : source_(source) {}

  /// Any line that is no row. Throws ScenarioError E0945, E0950.
  void take(const LogLine& line);
  /// Writes the known properties into the table that begins now.
  void describe(NcclTestsTable& table) const;

 private:
  void take_rank(const LogLine& line);
  void take_own(const LogLine& line);
  void take_command(const LogLine& line);
  void take_name(std::string_view name);

  // The properties of a run that its lines give.
  struct Run {
    std::set<int> ranks;
    std::set<std::string> hosts;
    int own_ranks = 0;  // As `shardsim collective` gives it.
    int own_nodes = 0;
    std::string gpu;
  };

  // The content of command lines and of "Collective test starting:".
  struct Command {
    std::optional<TestedOperation> operation;
    std::string variables;
  };

  const SourceText* source_;
  Command before_run_;  // Between the run before and the first words of this one.
  Command since_;       // After those words.
  Run run_;
};

}  // namespace shardsim

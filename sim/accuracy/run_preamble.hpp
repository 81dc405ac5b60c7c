#pragma once

#include <set>
#include <string>

#include "sim/accuracy/log_line.hpp"
#include "sim/accuracy/nccl_tests_table.hpp"

// The lines before a table describe the run: the test's name, the ranks and their hosts.
namespace shardsim {

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

  // The content of command lines and of "Collective test starting:".
  struct Command {
    std::optional<TestedOperation> operation;
    std::string variables;
  };

  void begin_run();

  const SourceText* source_;
  Command before_run_;  // Between the run before and the first words of this one.
  Command since_;       // After those words.
  std::set<int> ranks_;
  std::set<std::string> hosts_;
  int own_ranks_ = 0;  // As `shardsim collective` gives it.
  int own_nodes_ = 0;
  std::string gpu_;
};

}  // namespace shardsim

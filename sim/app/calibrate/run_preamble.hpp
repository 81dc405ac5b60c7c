#pragma once

#include <set>
#include <string>

#include "sim/app/calibrate/log_line.hpp"
#include "sim/app/calibrate/nccl_tests_table.hpp"

// What the lines before a table say of the run: the test's name, the ranks and their hosts.
namespace shardsim {

class RunPreamble {
 public:
  explicit RunPreamble(const SourceText* source) : source_(source) {}

  /// Any line that is no row. Throws ScenarioError E0945, E0950.
  void take(const LogLine& line);
  /// Writes what is known into the table that begins now.
  void describe(NcclTestsTable& table) const;

 private:
  void take_rank(const LogLine& line);
  void take_own(const LogLine& line);
  void take_command(const LogLine& line);
  void take_name(std::string_view name);

  const SourceText* source_;
  std::optional<TestedOperation> operation_;
  std::set<int> ranks_;
  std::set<std::string> hosts_;
  int own_ranks_ = 0;  // Of `shardsim collective`.
  int own_nodes_ = 0;
  std::string gpu_;
  std::string variables_;
};

}  // namespace shardsim

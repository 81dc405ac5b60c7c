#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/programs/program_rows.hpp"
#include "sim/programs/trace_groups.hpp"
#include "sim/programs/trace_link.hpp"

// Linked traces are written as this: a program file, and the collectives of which each rank's trace
// says a part.
namespace shardsim {

/// A program file in the making: what is written is what other recorders could write, and is read
/// as strictly.
class TraceProgramText {
 public:
  /// The number of an equal row.
  int row(const char* table, const ProgramJson& row);
  /// A rank's program, or one more rank for an equal one.
  void program(int rank, const ProgramJson& groups, std::string steps);
  [[nodiscard]] std::string file(const ProgramJson& header) const;

 private:
  std::string text_;
  std::map<std::string, int> rows_;
  std::map<std::string, int> counts_;  // How many rows, by table.
  std::map<std::pair<std::string, std::string>, std::vector<int>> programs_;
};

/// A row that a trace has as a text. Throws bad_program.
[[nodiscard]] ProgramJson trace_row_of(const std::string& row, const std::string& place);

/// The collectives of all groups: a rank's trace says its own bytes, a call those of all members.
class TraceCollectives {
 public:
  /// Throws UsageError (E1381) where members make different numbers of them. All outlive this.
  TraceCollectives(const TraceSet& traces, const TraceGroups& groups);

  /// The row of the rank's `number`-th collective of a group. The type of elements is not known, so
  /// each is a byte.
  [[nodiscard]] ProgramJson row_of(const TraceNode& node, int rank, std::size_t number) const;

 private:
  const TraceGroups& groups_;
  std::map<std::string, std::map<int, std::vector<const TraceNode*>>> calls_;  // By rank.
};

}  // namespace shardsim

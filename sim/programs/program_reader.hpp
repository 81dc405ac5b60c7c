#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/program/program_tables.hpp"

#include "sim/programs/program_rows.hpp"
#include "sim/programs/trace_groups.hpp"

// Files of all ranks and records of single ranks (rank_records.hpp) have this in common.
namespace shardsim {

/// The lines of a program file that are not empty.
class ProgramLines {
 public:
  ProgramLines(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  /// False: there is none.
  bool next(std::string_view& line);
  /// The line as one object. Throws bad_program.
  [[nodiscard]] ProgramJson object(std::string_view line) const;
  /// The file and the last line, for messages.
  [[nodiscard]] std::string place() const;
  [[noreturn]] void refuse(const std::string& cause, const std::string& fix) const;

 private:
  std::string_view text_;
  const std::string& path_;
  int line_ = 0;
};

/// A record's reader knows this before it begins. All outlive it.
struct RecordScope {
  const TraceGroups& groups;
  int rank = 0;
  std::shared_ptr<ProgramTables> tables;  ///< Those of all records.
};

using GroupLists = std::map<std::string, std::vector<int>>;

/// The header of a record, whose groups are added to `groups`. Throws bad_program.
[[nodiscard]] ProgramHeader read_record_head(std::string_view text, const std::string& path,
                                             GroupLists& groups);
/// The program of a record, which joins no groups. Throws bad_program, and UsageError (E1381) for a
/// call in a group that is not there.
[[nodiscard]] RankProgram read_record(std::string_view text, const std::string& path,
                                      const RecordScope& scope);

}  // namespace shardsim

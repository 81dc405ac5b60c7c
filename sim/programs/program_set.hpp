#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "sim/kernel/error.hpp"

#include "sim/hardware/collective.hpp"

#include "backends/replay/replay_world.hpp"

#include "sim/experiment/experiment.hpp"

// The programs of a training apart from the scenario that they come from: recorded of a plan, read
// from a file that any recorder can write, or made of another program's traces. They have no
// machine; a replay puts them on one (program_replay.hpp).
namespace shardsim {

/// Choices of a training that prices depend on, and that belong to no machine.
struct ProgramSettings {
  bool buffered_sends = false;  ///< As FiberOptions, and the next one.
  Algorithm all_reduce_algorithm = Algorithm::automatic;
  bool attention_drops = false;  ///< As Device.
  /// Times of holes are those beside communication: no machine slows them once more.
  bool overlap_is_recorded = false;

  friend bool operator==(const ProgramSettings&, const ProgramSettings&) = default;
};

struct ProgramSet {
  std::string name;  ///< That of the training.
  ProgramSettings settings;
  /// A sentence for each thing that its source did not say, or says otherwise.
  std::vector<std::string> notes;
  RankPrograms programs;
};

/// Records a plan. Throws UsageError (E1377) with the reason where its ranks cannot be recorded,
/// and what a plan's ranks throw.
[[nodiscard]] ProgramSet record_programs(const Experiment& experiment);

// --- The file form -----------------------------------------------------------------------------
// docs/guide/program-format.md. Lines of JSON: a header, the rows of the tables, and the programs.

/// The version that is written, and the only one that is read.
inline constexpr int kProgramVersion = 1;

[[nodiscard]] std::string program_file_of(const ProgramSet& set);

/// A row of such a file as one JSON object; a call's is without its group.
[[nodiscard]] std::string program_row_of(const ComputeOp& op);
[[nodiscard]] std::string program_row_of(const ProgramCall& call);
[[nodiscard]] std::string program_row_of(const ProgramMark& mark);
/// The part of the header that says the settings.
[[nodiscard]] std::string program_row_of(const ProgramSettings& settings);

/// Whether a text begins as such a file does.
[[nodiscard]] bool looks_like_program_file(std::string_view text);

/// Everything that a replay relies on is checked. `path` is for messages. Throws UsageError (E1378)
/// with the line, the cause and the fix.
[[nodiscard]] ProgramSet read_program_file(std::string_view text, const std::string& path);

/// E1378: `place` is the file and, after a colon, the line or the rank.
[[nodiscard]] UsageError bad_program(const std::string& place, const std::string& cause,
                                     const std::string& fix);

/// Finds what a replay could not go on with: rows and slots that are not there, groups that do not
/// lie in their parents, calls that do not fit their groups. Throws bad_program; `path` is its
/// place. `added`: so many steps at the beginning are not of the file.
void check_programs(const RankPrograms& programs, const std::string& path, std::size_t added = 0);

}  // namespace shardsim

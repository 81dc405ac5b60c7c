#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tests/harness_drawn/rank_plan.hpp"

// A single change of one call of one rank.
namespace shardsim::drawn {

enum class PlantKind : std::uint8_t {
  kind,        ///< Another collective; a send for a receive, or the reverse.
  count,       ///< An element more; of an all_to_all, for the next member.
  dtype,       ///< Another element type.
  op,          ///< Another reduce op.
  root,        ///< The next member as root;
  peer,        ///< or as peer of a message.
  tag,         ///< A tag that nobody else has.
  label,       ///< Another label.
  group,       ///< Another group of this rank, for a call in place.
  order,       ///< Changes places with the rank's next call of the group, or message of the pair.
  missing,     ///< Is left out, with its wait.
  doubled,     ///< Is made twice in succession.
  unwaited,    ///< Is not waited for.
  write,       ///< Its buffer is written to before the wait, through set,
  write_raw,   ///< or by a pointer from before,
  same_value,  ///< or by such a pointer with the value that is there.
  read,        ///< Its output is read before the wait, through get,
  read_raw,    ///< or by a pointer from before, and compared with what comes,
  read_input,  ///< or what it only reads is.
  reuse,       ///< Its buffer is given to a call that is under way at the same time.
};
inline constexpr int kPlantKinds = 20;
[[nodiscard]] const char* name_of(PlantKind kind);

struct Plant {
  PlantKind kind = PlantKind::kind;
  int rank = 0;
  std::size_t action = 0;  ///< The call.
  std::size_t other = 0;   ///< The call it changes places or shares its buffer with.
};

/// All places for a change of this kind.
[[nodiscard]] std::vector<Plant> places_of(const ProgramPlan& plan, PlantKind kind);
[[nodiscard]] ProgramPlan planted(const ProgramPlan& plan, const Plant& plant);

}  // namespace shardsim::drawn

#pragma once

#include <cstdint>
#include <vector>

#include "sim/kernel/diagnosis.hpp"

// A run that stands still is made again with a call of one rank mended, to see who is to blame.
namespace shardsim {

/// A collective of one rank that a run treats as if the rank had no bug there. No data move by an
/// operation that is mended.
struct CallRepair {
  enum class Kind : std::uint8_t {
    leave_out,  ///< The rank makes it; the run goes on as if it had not.
    excuse,     ///< The rank does not make it; the others do not wait for it.
    accept,     ///< The rank's call differs; it counts as the others'.
  };
  Kind kind = Kind::leave_out;
  int rank = 0;               ///< In the world.
  std::uint64_t group = 0;    ///< FiberGroup::id.
  std::int64_t sequence = 0;  ///< Of the operation in that group.
};

/// One rank that may be to blame for a run that stands still: if so, the run ends well with these
/// repairs, and with none of another rank.
struct Suspicion {
  int rank = 0;
  std::vector<CallRepair> repairs;
  Diagnosis diagnosis;  ///< The report if it is true.
};

}  // namespace shardsim

#pragma once

#include <cstdint>
#include <vector>

#include "sim/kernel/diagnosis.hpp"

// A run that stands still is made again with a call of one rank mended, to see who is to blame.
namespace shardsim {

/// A call of one rank that a run treats as if the rank had no bug there. No data move by a
/// collective that is mended.
struct CallRepair {
  enum class Kind : std::uint8_t {
    leave_out,       ///< The rank makes a collective; the run goes on as if it had not. A split
                     ///< gives it a group of its own.
    excuse,          ///< The rank does not make a collective; the others do not wait for it.
    accept,          ///< The rank's collective differs; it counts as that of the others.
    leave_out_half,  ///< The same as leave_out, of a send or a receive.
    redirect,        ///< A send or receive is to or from `peer`.
  };
  /// The group of tagged messages.
  static constexpr std::uint64_t kTagged = ~std::uint64_t{0};

  Kind kind = Kind::leave_out;
  int rank = 0;             ///< In the world.
  std::uint64_t group = 0;  ///< FiberGroup::id.
  /// The operation's number in that group. For a send or receive: its number among those that the
  /// rank has posted in the group; with tags, twice its number among sends, or among receives, and
  /// 1 more for a send.
  std::int64_t sequence = 0;
  int peer = -1;
};

/// A rank that may be to blame for a run that stands still: if so, the run ends well with these
/// repairs, and with none of another rank.
struct Suspicion {
  int rank = 0;
  std::vector<CallRepair> repairs;
  Diagnosis diagnosis;  ///< The report if it is true.
};

}  // namespace shardsim

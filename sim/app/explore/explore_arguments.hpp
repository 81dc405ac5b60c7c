#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace shardsim {

/// What `shardsim run` was told about schedules.
struct ExploreArguments {
  std::string mode;    ///< "pct" or "dpor"; empty: no exploration.
  int schedules = 20;  ///< pct: how many are drawn.
  /// pct: events whose order matters, for receives from any source; strategies have none.
  int depth = 2;
  std::uint64_t seed = 1;             ///< pct: what is drawn.
  std::optional<std::string> replay;  ///< The token of the one run that is to be made.
  bool replay_force = false;          ///< Take a token of another build.
  bool shrink = false;                ///< Look for a smaller scenario that fails the same way.
  /// The folder for the smaller scenario; empty: it is only printed.
  std::string shrunk_directory;

  [[nodiscard]] bool explores() const { return !mode.empty(); }
  /// Whether the run is not the plain one.
  [[nodiscard]] bool is_asked() const { return explores() || replay; }
};

}  // namespace shardsim

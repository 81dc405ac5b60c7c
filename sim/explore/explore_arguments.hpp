#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own name.
class App;
}  // namespace CLI

namespace shardsim {

/// The options of `shardsim run` for schedules.
struct ExploreArguments {
  std::string mode;    ///< "pct" or "dpor"; empty: no exploration.
  int schedules = 20;  ///< pct: the number of drawn schedules.
  /// pct: events whose order matters, for receives from any source; strategies have none.
  int depth = 2;
  std::uint64_t seed = 1;             ///< pct: the seed of the draws.
  std::optional<std::string> replay;  ///< The token of the one run to make.
  bool replay_force = false;          ///< Accept a token of another build.
  bool shrink = false;                ///< Look for a smaller scenario that fails the same way.
  /// The folder for the smaller scenario; empty: it is only printed.
  std::string shrunk_directory;

  [[nodiscard]] bool explores() const { return !mode.empty(); }
  /// Whether the run is not the plain one.
  [[nodiscard]] bool is_asked() const { return explores() || replay; }
};

/// --explore and its options, --replay, --shrink: options of `shardsim run`.
void add_explore_options(CLI::App& verb, ExploreArguments& arguments);

}  // namespace shardsim

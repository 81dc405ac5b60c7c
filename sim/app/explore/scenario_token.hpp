#pragma once

#include <string>

#include "sim/experiment/experiment.hpp"

#include "sim/harness/schedule.hpp"

// Tokens of runs of scenarios. The name in them is the scenario's, and a hash of everything in it
// that decides how a run goes, so that a token of another scenario is refused.
namespace shardsim {

/// What makes this run again. What goes to which file does not matter for it.
[[nodiscard]] ReplayToken token_of(const Experiment& experiment, const Schedule& schedule);

/// The schedule of a token of this scenario. Throws UsageError: E1201 and E1202 as parse_token does
/// (`force`: not the latter), E1203 for the token of another scenario.
[[nodiscard]] Schedule schedule_of(const std::string& text, const Experiment& experiment,
                                   bool force);

/// "rendezvous sends"; "drawn sends, order drawn from 17": all there is to a schedule of a
/// scenario.
[[nodiscard]] std::string describe(const Schedule& schedule);

}  // namespace shardsim

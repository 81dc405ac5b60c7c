#pragma once

#include <string>

#include "sim/experiment/experiment.hpp"

#include "sim/harness/schedule.hpp"

// Tokens of runs of scenarios. Their name is the scenario's, with a hash of everything in it that
// affects a run, so that a token of another scenario is refused.
namespace shardsim {

/// The token that makes this run again. The scenario's output files do not matter for it.
[[nodiscard]] ReplayToken token_of(const Experiment& experiment, const Schedule& schedule);

/// The schedule of a token of this scenario. Throws UsageError: E1201 and E1202 as parse_token does
/// (`force`: not the latter), E1203 for the token of another scenario.
[[nodiscard]] Schedule schedule_of(const std::string& text, const Experiment& experiment,
                                   bool force);

/// "rendezvous sends"; "drawn sends, order drawn from 17": all parts of a scenario's schedule.
[[nodiscard]] std::string describe(const Schedule& schedule);

}  // namespace shardsim

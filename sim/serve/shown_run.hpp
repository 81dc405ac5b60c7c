#pragma once

#include <string>

#include "sim/experiment/experiment.hpp"
#include "sim/run/run.hpp"

// A run as the page shows it: its result, and the words that people read.
namespace shardsim {

/// "result": the object of to_json(); "tiles": [{name, value, model, note}], a centre with its
/// range where a band exists; "time" and "memory": [{name, ink, amount, words}], parts of a bar:
/// the memory is that of the fullest rank, by category, and what is no tensor;
/// "device_bytes"; "verdict" and "is_ok"; "text": the page of the terminal.
[[nodiscard]] std::string shown_run_json(const Experiment& experiment, const RunOutcome& outcome);

}  // namespace shardsim

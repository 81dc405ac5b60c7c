#pragma once

#include <string>
#include <vector>

#include "sim/hardware/cluster.hpp"

#include "reports/result.hpp"
#include "scenarios/fault_spec.hpp"

// What the numbers of an experiment rest on, in sentences with their sources.
namespace shardsim {

class Experiment;

using Assumptions = std::vector<Assumption>;

/// The model's own simplifications and the sources of all hardware and model numbers. `replayed`:
/// what a record of decisions adds, which then decides where a plan would assume something; null:
/// there is no record.
[[nodiscard]] Assumptions assumptions_of(const Experiment& experiment,
                                         const Assumptions* replayed = nullptr);

void append_assumptions(Assumptions& assumptions, const Assumptions& more);

// The parts of the whole that are written in files of their own.

/// Whether operations are priced by the sizes of their kernels, else by a roofline.
[[nodiscard]] bool prices_shapes(const Experiment& experiment);
/// What an operation costs on the device and the host, and every constant that says so.
[[nodiscard]] Assumptions price_of_computing(const Experiment& experiment);
/// What it costs more while a rank communicates.
[[nodiscard]] Assumption beside_communication(const Experiment& experiment);
/// What communication is priced by.
[[nodiscard]] Assumptions price_of_communication(const Experiment& experiment);
/// Every constant of that model with its source; the links' own are among the scenario's.
[[nodiscard]] Assumptions constants_of_communication(const Cluster& cluster);
/// What a result with faults rests on; nothing without.
[[nodiscard]] Assumptions fault_assumptions(const FaultSpec& faults);

/// "2 stragglers, 1 slow link": the lists that are not empty; "" if all are.
[[nodiscard]] std::string faults_in_words(const FaultSpec& faults);

}  // namespace shardsim

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/kernel/tracked.hpp"

#include "sim/hardware/cluster.hpp"

#include "reports/result.hpp"
#include "scenarios/machine_spec.hpp"
#include "scenarios/scenario.hpp"

// The assumptions behind an experiment's numbers, in sentences with their sources.
namespace shardsim {

class Experiment;

using Assumptions = std::vector<Assumption>;

/// The model's own simplifications and the sources of all hardware and model numbers. `replayed`:
/// the assumptions of a record of decisions, which replaces some assumptions of a plan; null: there
/// is no record.
[[nodiscard]] Assumptions assumptions_of(const Experiment& experiment,
                                         const Assumptions* replayed = nullptr);

void append_assumptions(Assumptions& assumptions, const Assumptions& more);

// The parts of the whole that are written in files of their own.

/// Whether operations are priced by the sizes of their kernels, else by a roofline.
[[nodiscard]] bool prices_shapes(const Experiment& experiment);
/// The price of an operation on the device and the host, with every constant behind it.
[[nodiscard]] Assumptions price_of_computing(const Experiment& experiment);
/// The kernels of the framework on the device, and its host time.
[[nodiscard]] Assumptions software_assumptions(const Experiment& experiment);
/// The slowdown of operations while a rank communicates.
[[nodiscard]] Assumption beside_communication(const Experiment& experiment);
/// Those of what a training does to need less memory.
[[nodiscard]] Assumptions savings_of_memory(const Scenario& scenario);
/// The price of communication.
[[nodiscard]] Assumptions price_of_communication(const Experiment& experiment);
/// Every constant of that model with its source; the links' own are among the scenario's.
[[nodiscard]] Assumptions constants_of_communication(const Cluster& cluster);
/// The assumptions behind faults; nothing without faults.
[[nodiscard]] Assumptions fault_assumptions(const FaultSpec& faults);

/// "2 stragglers, 1 slow link": the lists that are not empty; "" if all are.
[[nodiscard]] std::string faults_in_words(const FaultSpec& faults);

// --- Fields without effect ---------------------------------------------------------------------
// Chosen fields that a run did not need (docs/decisions/0054-fields-without-effect.md).
// scenario.warnings already has what is known before a run.

/// How the one line about fields_of_values() begins.
inline constexpr std::string_view kOnlyValues = "These fields change only the values of tensors";

/// Fields whose values nothing in the run read, or that lost each time against a stricter limit,
/// which is then named. A required field is named only if it lost against one that nobody wrote.
/// `reads`: the log of the whole run. In the order of the field table, chosen fields first.
[[nodiscard]] std::vector<std::string> fields_without_effect(const Scenario& scenario,
                                                             const ReadLog& reads);

/// One line for all chosen fields that only values of tensors depend on. Returns none if there are
/// no such fields, or if the run has values.
[[nodiscard]] std::optional<Assumption> fields_of_values(const Scenario& scenario);

}  // namespace shardsim

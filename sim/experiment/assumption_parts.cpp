#include <algorithm>
#include <cstddef>
#include <string>

#include <fmt/format.h>

#include "sim/hardware/kernels/kernel_constants.hpp"
#include "sim/hardware/nccl/platform.hpp"
#include "sim/hardware/power.hpp"

#include "scenarios/field.hpp"
#include "sim/experiment/assumptions.hpp"
#include "sim/experiment/experiment.hpp"

namespace shardsim {

namespace {

// The price of an operation, and the constants behind it.
Assumptions costs(const Experiment& experiment) {
  if (!prices_shapes(experiment)) {
    return {
        {"An operation takes max(flops / achieved peak, bytes / achieved bandwidth) + one launch",
         "Roofline, Williams et al. 2009; one achieved share per device, whatever the shape"}};
  }
  Assumptions assumptions = {
      {"Matrix products take their waves of tiles, fused attention its blocks of queries, but no "
       "less than their bytes; other operations take their bytes; each takes one launch",
       "docs/decisions/0032-kernel-cost.md"}};
  const std::string& name = experiment.scenario().system.device.kernels;
  const Device& device = experiment.cluster().device;
  const AttentionLibrary attention = device.attention_library();
  for (const NamedConstant& constant : constants_of(*device.kernels)) {
    if (constant.library.value_or(attention) != attention) continue;
    assumptions.push_back({fmt::format("system.device.kernels {}: {} = {}", name, constant.name,
                                       constant.number.value),
                           constant.number.source});
  }
  return assumptions;
}

void add_graphs_and_power(const SystemSpec& system, Assumptions& assumptions) {
  if (system.cuda_graphs != "none") {
    assumptions.push_back(
        {"The host takes the time of one kernel for each CUDA graph of " + system.cuda_graphs +
             "; gaps between its kernels are as without, and memory of graphs is not counted: it "
             "is a few GB, and more than 10 GB with pipeline stages",
         "NVIDIA-NeMo/Megatron-Bridge at 067f987d, docs/performance-guide.md"});
  }
  const DeviceSpec& device = system.device;
  if (!(device.power_limit_w.peek() > 0.0)) return;
  assumptions.push_back(
      {fmt::format("At {} of {} W products and attention run at {:.4g} times their clock, and "
                   "memory at its own; below about 70 % chips fall faster than that",
                   device.power_limit_w.peek(), device.power_w.peek(),
                   clock_share(device.power_limit_w.peek(), device.power_w.peek())),
       "a cube root: dynamic power is voltage squared times clock, and voltage follows the clock "
       "(Weste and Harris, CMOS VLSI Design); docs/decisions/0087-power-and-graphs.md"});
}

std::string choice_text(const NcclSelection& selection) {
  if (selection.algorithms().empty() && selection.protocols().empty()) {
    return "no tuner plugin and no variable of NCCL's changes its choice";
  }
  const auto words = [](const std::string& list) {
    return list.empty() ? std::string("all") : "\"" + list + "\"";
  };
  return fmt::format("NCCL chooses from the algorithms {} and the protocols {}",
                     words(selection.algorithms()), words(selection.protocols()));
}

// The list of the scenario's sources includes these numbers.
void add_correction(Assumptions& assumptions, const char* where, const NcclCorrection& correction) {
  if (correction.bandwidth_factor == 1.0 && correction.added_latency_us == 0.0) return;
  assumptions.push_back(
      {fmt::format("Calibrated {}: NCCL's bandwidth times {}, its latency {:+} us; its choices are "
                   "as without",
                   where, correction.bandwidth_factor.peek(), correction.added_latency_us.peek()),
       "system.nccl of the scenario; docs/decisions/0037-calibration.md"});
}

Assumptions nccl(const NcclPlatform& platform, const NetworkSpec& network) {
  Assumptions assumptions = {
      {fmt::format(
           "Communication costs what NCCL {} expects of the algorithm and protocol that it "
           "chooses, on {} GPUs with {} NVLinks and {} NICs of {} Gbit/s per node, and CPUs of {}; "
           "operations on different communicators do not slow each other or the compute stream",
           name_of(platform.version), name_of(platform.generation), platform.nvlinks.peek(),
           platform.nics_per_node, platform.nic_gbit_per_s.peek(),
           platform.cpu == CpuVendor::amd ? "AMD" : "Intel"),
       "NCCL's cost model; docs/decisions/0031-nccl-model.md"},
      {"Reductions are sums of a type that NVSwitch adds; " +
           choice_text(platform.overrides.selection) + "; SHARP in the network is off",
       platform.overrides.selection.algorithms().empty() &&
               platform.overrides.selection.protocols().empty()
           ? "NCCL's defaults"
           : "system.nccl of the scenario"},
      {"Bytes are counted as a ring's where NCCL takes Ring, NVLS or PAT, and as a tree's where it "
       "takes Tree or NVLSTree",
       "modelling choice; NVSwitch moves fewer"},
      {"Messages between nodes share the NICs with those of all other GPUs of the node, and with "
       "nothing else",
       "modelling choice"},
  };
  add_correction(assumptions, "within a node", platform.overrides.inside);
  add_correction(assumptions, "between nodes", platform.overrides.between);
  if (network.nodes_per_pod > 0) {
    assumptions.push_back(
        {fmt::format("Groups of several pods of {} nodes take {} times as long for their bytes",
                     network.nodes_per_pod, network.oversubscription.peek()),
         "modelling choice: every pod's links to the others are full"});
  }
  return assumptions;
}

// --- Faults ------------------------------------------------------------------------------------

constexpr const char* kDocument = "modelling choice: docs/decisions/0047-faults.md";

std::string write_words(const FaultSpec& faults) {
  if (faults.checkpoint_write_s > 0) {
    return fmt::format("A checkpoint stops training for {} s", faults.checkpoint_write_s);
  }
  return fmt::format(
      "A checkpoint is the weights, master weights and optimizer state of the model once, and is "
      "written at {} GB/s while training waits",
      faults.checkpoint_gb_per_s);
}

std::string count_words(const FaultSpec& faults) {
  if (faults.observed_failures == 0) {
    return "The uncertainty of the times between failures is not given, so there is no band";
  }
  return fmt::format(
      "The times between failures were counted from {} failures: the band is the 90 % interval of "
      "that count, exact to 100 (Garwood 1936), by Byar's approximation above, and of nothing else",
      faults.observed_failures);
}

std::string factor_words(const FactorSpec& factor) {
  return fmt::format("{} with spread {}", to_string(factor.distribution), factor.spread);
}

void append_draws(const FaultSpec& faults, Assumptions& assumptions) {
  constexpr const char* kDrawn = "given in the scenario; docs/decisions/0063-drawn-faults.md";
  const DrawSpec& draws = faults.draws;
  if (draws.count == 0) return;
  for (const DrawnStragglerSpec& straggler : draws.stragglers) {
    std::string text = fmt::format(
        "In each draw a {} is a straggler with probability {}, {} times "
        "slower for the whole training",
        straggler.part, straggler.probability, straggler.slowdown);
    if (straggler.factor.spread > 0) {
      text += ", times a factor: " + factor_words(straggler.factor);
    }
    assumptions.push_back({text, kDrawn});
  }
  if (draws.compute_jitter.spread > 0) {
    assumptions.push_back(
        {"In each draw the time of each operation that computes has a factor of "
         "its own: " +
             factor_words(draws.compute_jitter),
         kDrawn});
  }
  if (draws.communication_jitter.spread > 0) {
    assumptions.push_back({"In each draw the time of each communication has a factor of its own: " +
                               factor_words(draws.communication_jitter),
                           kDrawn});
  }
  if (!faults.has_failures()) return;
  assumptions.push_back({draws.training_days > 0
                             ? fmt::format("In each draw failures come during {} days of training",
                                           draws.training_days)
                             : std::string("In each draw failures come during the days of "
                                           "training.tokens_total, or 30 days without it"),
                         kDrawn});
}

// --- Fields without effect ---------------------------------------------------------------------

bool acts(const Field& field, const Scenario& scenario) {
  return !field.acts || field.acts(scenario);
}

// Whether somebody wrote the number with this mark: the slowest of a machine's links limits a ring.
bool is_stated(const Scenario& scenario, ReadMark mark) {
  const auto has = [&](const std::vector<std::string>& paths) {
    return mark != 0 && std::ranges::find(paths, field_of(mark).path) != paths.end();
  };
  return has(scenario.required) || has(scenario.chosen);
}

std::string words_of(const Field& field, std::optional<ReadMark> winner) {
  const std::string words = field.path + " has no effect here: ";
  if (!winner) return words + "this run does not use it";
  return words + "a stricter limit always applies" +
         (*winner == 0 ? "" : ": " + field_of(*winner).path);
}

}  // namespace

bool prices_shapes(const Experiment& experiment) {
  return experiment.cluster().device.kernels != nullptr;
}

Assumptions price_of_computing(const Experiment& experiment) {
  Assumptions assumptions = costs(experiment);
  append_assumptions(assumptions, software_assumptions(experiment));
  add_graphs_and_power(experiment.scenario().system, assumptions);
  return assumptions;
}

Assumption beside_communication(const Experiment& experiment) {
  if (!prices_shapes(experiment) || !experiment.scenario().system.overlap_slows_computing) {
    return {
        "Computing does not slow down beside communication: neither takes multiprocessors or "
        "memory bandwidth from the other",
        "modelling choice; favours overlap"};
  }
  return {
      "Computing slows down beside collectives by beside_communication of the GPU's constants; "
      "collectives do not",
      "modelling choice; docs/decisions/0036-software.md"};
}

Assumptions price_of_communication(const Experiment& experiment) {
  const NcclPlatform* platform = experiment.cluster().nccl.get();
  if (platform != nullptr) return nccl(*platform, experiment.scenario().system.network);
  return {
      {"Communication costs alpha + bytes / beta per step of a ring or tree; operations on "
       "different communicators do not slow each other or the compute stream",
       "modelling choice"},
  };
}

Assumptions constants_of_communication(const Cluster& cluster) {
  Assumptions assumptions;
  if (cluster.nccl == nullptr) return assumptions;
  for (const NcclConstants& constants : nccl_tables()) {
    assumptions.push_back({"NCCL: " + words_of(constants), constants.source});
  }
  return assumptions;
}

// --- Faults ------------------------------------------------------------------------------------

Assumptions fault_assumptions(const FaultSpec& faults) {
  Assumptions assumptions;
  if (faults.slows_steps()) {
    assumptions.push_back(
        {"Faults are those of the scenario, the whole run: " + faults_in_words(faults) +
             "; what uses a link goes at the pace of the worst one, and stands still while one is "
             "down",
         kDocument});
  }
  append_draws(faults, assumptions);
  if (!faults.has_failures()) return assumptions;
  assumptions.push_back(
      {"Failures come independently, at a constant rate, also during checkpoints and restarts; "
       "each stops the whole job, which goes on from its last checkpoint",
       "Daly 2006; docs/decisions/0047-faults.md"});
  assumptions.push_back({write_words(faults), kDocument});
  assumptions.push_back({count_words(faults), kDocument});
  return assumptions;
}

std::string faults_in_words(const FaultSpec& faults) {
  std::string words;
  const auto add = [&words](std::size_t count, const char* name) {
    if (count == 0) return;
    words +=
        fmt::format("{}{} {}{}", words.empty() ? "" : ", ", count, name, count == 1 ? "" : "s");
  };
  add(faults.stragglers.size(), "straggler");
  add(faults.slow_links.size(), "slow link");
  add(faults.flapping_links.size(), "flapping link");
  return words;
}

// --- Fields without effect ---------------------------------------------------------------------

std::vector<std::string> fields_without_effect(const Scenario& scenario, const ReadLog& reads) {
  std::vector<std::string> warnings;
  for (const std::string& path : scenario.chosen) {
    const Field& field = *find_field(path);
    const ReadMark mark = mark_of(field);
    if (field.set_mark == nullptr || !acts(field, scenario) || reads.was_read(mark)) continue;
    warnings.push_back(words_of(field, reads.lost_to(mark)));
  }
  for (const std::string& path : scenario.required) {
    const Field& field = *find_field(path);
    const ReadMark mark = mark_of(field);
    const std::optional<ReadMark> winner = reads.lost_to(mark);
    if (!winner || reads.was_read(mark)) continue;
    if (!is_stated(scenario, *winner)) warnings.push_back(words_of(field, winner));
  }
  return warnings;
}

std::optional<Assumption> fields_of_values(const Scenario& scenario) {
  if (scenario.execution.tensors == TensorMode::real) return std::nullopt;
  std::string names;
  for (const std::string& path : scenario.chosen) {
    const Field& field = *find_field(path);
    if (!field.is_of_values || !acts(field, scenario)) continue;
    names += (names.empty() ? "" : ", ") + path;
  }
  if (names.empty()) return std::nullopt;
  return Assumption{std::string(kOnlyValues) + ", which a plan does not compute: " + names,
                    "execution.tensors is meta"};
}

}  // namespace shardsim

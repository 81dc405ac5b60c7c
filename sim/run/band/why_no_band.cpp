#include "sim/run/band/why_no_band.hpp"

#include <initializer_list>
#include <utility>

#include "sim/hardware/software.hpp"

#include "scenarios/stage_places.hpp"

namespace shardsim {

namespace {

constexpr const char* kNotPredicted = "no measured run is predicted with ";
constexpr const char* kNotMeasured = "no measured run has ";

// A field that all measured runs leave as it is, and whether this one does not.
using FieldChange = std::pair<const char*, bool>;

std::string first_changed(std::initializer_list<FieldChange> fields) {
  for (const auto& [field, is_changed] : fields) {
    if (is_changed) return std::string(kNotPredicted) + field;
  }
  return {};
}

std::string network_reason(const NetworkSpec& network) {
  if (!network.is_nccl()) {
    return kNotPredicted + ("system.network_model " + network.model);
  }
  if (network.oversubscription != 1.0) return std::string(kNotMeasured) + "system.oversubscription";
  const TierCorrection& intra = network.intra_node;
  const TierCorrection& inter = network.inter_node;
  return first_changed(
      {{"system.nccl.algorithms", !network.nccl_algorithms.empty()},
       {"system.nccl.protocols", !network.nccl_protocols.empty()},
       {"system.nccl.intra_node.bandwidth_factor", intra.bandwidth_factor != 1.0},
       {"system.nccl.intra_node.added_latency_us", intra.added_latency_us != 0.0},
       {"system.nccl.inter_node.bandwidth_factor", inter.bandwidth_factor != 1.0},
       {"system.nccl.inter_node.added_latency_us", inter.added_latency_us != 0.0}});
}

// The host's times are the software's own where the scenario does not say them.
std::string host_reason(const SystemSpec& system, const Software* software) {
  const double per_kernel = software == nullptr ? 0.0 : software->host_us_per_kernel.value;
  const double per_call = software == nullptr ? 0.0 : software->host_us_per_call.value;
  if (system.cuda_launch_blocking &&
      (system.host_us_per_kernel.peek() > 0 || system.host_us_per_call.peek() > 0)) {
    return std::string(kNotPredicted) + "system.cuda_launch_blocking";
  }
  const std::string changed =
      first_changed({{"another system.host_us_per_kernel than the software's own",
                      system.host_us_per_kernel != per_kernel},
                     {"another system.host_us_per_call than the software's own",
                      system.host_us_per_call != per_call}});
  if (!changed.empty() || system.overlap_slows_computing) return changed;
  return std::string(kNotPredicted) + "system.overlap_slows_computing false";
}

std::string system_reason(const SystemSpec& system, const Software* software) {
  if (system.kernel_model != "shapes") {
    return kNotPredicted + ("system.kernel_model " + system.kernel_model);
  }
  const std::string network = network_reason(system.network);
  return network.empty() ? host_reason(system, software) : network;
}

std::string parallelism_reason(const ParallelismSpec& parallelism) {
  if (parallelism.offloads()) return "no measured run offloads to the host";
  if (parallelism.changes_algorithm() || parallelism.is_elastic()) {
    return "no measured run trains with another data parallelism than synchronous";
  }
  if (parallelism.pp > 1 && !schedule_row_of(parallelism.schedule).was_measured) {
    return kNotMeasured + ("parallelism.schedule " + parallelism.schedule);
  }
  // Rings were measured, of step times those of 2 ranks.
  if (parallelism.cp > 1 && parallelism.cp_attention != ContextAttention::ring) {
    return kNotMeasured + std::string("parallelism.cp_attention ") +
           to_string(parallelism.cp_attention);
  }
  return {};
}

}  // namespace

std::string why_no_band(const Experiment& experiment) {
  const Scenario& scenario = experiment.scenario();
  if (scenario.execution.tensors == TensorMode::real) return "a run with numbers is no plan";
  if (scenario.faults.slows_steps()) {
    return "faults are told here, and measured runs had those of their own";
  }
  const std::string system = system_reason(scenario.system, experiment.software());
  if (!system.empty()) return system;
  if (scenario.model.family == ModelFamily::mlp) return "no measured run has model.family mlp";
  if (scenario.model.num_experts > 0) return "no measured run has experts";
  const std::string parallelism = parallelism_reason(scenario.parallelism);
  if (!parallelism.empty()) return parallelism;
  const DType precision = scenario.training.precision;
  if (precision != DType::bf16 && precision != DType::fp16) {
    return std::string(kNotMeasured) + "training.precision " + to_string(precision);
  }
  return {};
}

}  // namespace shardsim

#include <array>
#include <initializer_list>
#include <utility>

#include "sim/hardware/software.hpp"

#include "scenarios/stage_places.hpp"
#include "sim/run/band/error_band.hpp"

namespace shardsim {

namespace {

// --- Why there is no band ----------------------------------------------------------------------

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
  if (system.device.power_limit_w.peek() > 0.0) {
    return std::string(kNotPredicted) + "system.device.power_limit_w";
  }
  if (!system.device.kernel_constants.empty()) {
    return std::string(kNotPredicted) + "system.device.kernel_constants";
  }
  if (system.attention_library == "flash3") {
    return kNotPredicted + ("system.attention_library " + system.attention_library);
  }
  if (system.cuda_graphs != "none") return std::string(kNotPredicted) + "system.cuda_graphs";
  if (system.kernel_model != "shapes") {
    return kNotPredicted + ("system.kernel_model " + system.kernel_model);
  }
  const std::string network = network_reason(system.network);
  return network.empty() ? host_reason(system, software) : network;
}

std::string parallelism_reason(const ParallelismSpec& parallelism) {
  if (parallelism.uses_host_memory()) return "no run in a band offloads to the host";
  if (parallelism.changes_algorithm() || parallelism.is_elastic()) {
    return "no measured run trains with another data parallelism than synchronous";
  }
  if (parallelism.schedule != "none" && !schedule_row_of(parallelism.schedule).was_measured) {
    return kNotMeasured + ("parallelism.schedule " + parallelism.schedule);
  }
  // Rings were measured, of step times those of 2 ranks.
  if (parallelism.cp > 1 && !context_attention_row(parallelism.cp_attention).was_measured) {
    return kNotMeasured + std::string("parallelism.cp_attention ") +
           to_string(parallelism.cp_attention);
  }
  return {};
}

// --- Bands -------------------------------------------------------------------------------------

// A quantity of the tables and the metric that its band belongs to. Tables give memory as the
// allocator's or as the device's; users ask for the device's.
struct BandedMetric {
  const char* quantity;
  const char* metric;
};
constexpr std::size_t kNumBanded = 2;
constexpr std::array<BandedMetric, kNumBanded> kBanded{
    {{"step_time_s", metric::kStepTimeS.name},
     {"peak_memory_bytes", metric::kMemoryDeviceBytesMax.name}}};

// The basis of the bands around each metric: the rows predicted like the run.
using BandBases = std::array<MeasuredRows, kNumBanded>;

// The result points into `known`.
BandBases bases_of(const MeasuredErrors& known, bool with_framework) {
  BandBases bases;
  for (std::size_t i = 0; i < kNumBanded; ++i) {
    bases.at(i) = comparable_rows(known.errors, kBanded.at(i).quantity,
                                  with_framework ? "any framework" : "none");
  }
  return bases;
}

bool has_framework(const RunSetting& setting) { return setting.software != "none"; }

MetricBand metric_band(const char* metric, double predicted, const ErrorBand& band,
                       const RunSetting& setting, double held_out_share) {
  return {.metric = metric,
          .low = predicted * band.low,
          .centre = predicted * band.centre,
          .high = predicted * band.high,
          .bias = band.bias,
          .runs = static_cast<std::int64_t>(band.rows),
          .tables = static_cast<std::int64_t>(band.tables),
          .group = group_name(setting, band.level) +
                   (has_framework(setting) ? "" : ", predicted without a framework"),
          .too_few = dropped_words(setting, band.level),
          .device = setting.device,
          .runs_on_device = static_cast<std::int64_t>(band.rows_on_device),
          .software = setting.software,
          .runs_with_software = static_cast<std::int64_t>(band.rows_with_software),
          .least_ranks = band.least_ranks,
          .most_ranks = band.most_ranks,
          .held_out_share = held_out_share};
}

// Whether the result may have bands; if not, it says why. Results without a step time say nothing.
bool may_have_bands(const Experiment& experiment, Result& result) {
  if (result.find(metric::kStepTimeS) == nullptr) return false;
  result.no_error_band = why_no_band(experiment);
  return result.no_error_band.empty();
}

void add_bands(const MeasuredErrors& known, const RunSetting& setting, const BandBases& bases,
               Result& result) {
  for (std::size_t i = 0; i < kNumBanded; ++i) {
    const auto& [quantity, metric] = kBanded.at(i);
    const std::optional<double> predicted = result.number(metric);
    const std::optional<ErrorBand> band = group_band(bases.at(i), setting);
    if (!predicted || !band) continue;
    const std::optional<double> share =
        held_out_share(known, quantity, setting.software, group_name(setting, band->level));
    if (!share) continue;
    result.error_bands.push_back(metric_band(metric, *predicted, *band, setting, *share));
  }
  if (result.error_bands.empty()) result.no_error_band = "the program was built without errors";
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
  const std::string parallelism = parallelism_reason(scenario.parallelism);
  if (!parallelism.empty()) return parallelism;
  const TrainingSpec& training = scenario.training;
  if (training.dtype() != DType::bf16 && training.dtype() != DType::fp16) {
    return std::string(kNotMeasured) + "training.precision " + to_string(training.precision);
  }
  if (training.has_low_products() && training.fp8_recipe == "blockwise") {
    return std::string(kNotMeasured) + "training.fp8_recipe blockwise";
  }
  return {};
}

RunSetting run_setting_of(const Experiment& experiment) {
  const Scenario& scenario = experiment.scenario();
  return {.device = scenario.system.device.kernels,
          .software = scenario.system.software,
          .ranks = scenario.system.ranks,
          .has_experts = scenario.model.num_experts > 0};
}

void add_error_bands(const Experiment& experiment, const MeasuredErrors& known, Result& result) {
  if (!may_have_bands(experiment, result)) return;
  const RunSetting setting = run_setting_of(experiment);
  add_bands(known, setting, bases_of(known, has_framework(setting)), result);
}

void add_error_bands(const Experiment& experiment, Result& result) {
  if (!may_have_bands(experiment, result)) return;
  const RunSetting setting = run_setting_of(experiment);
  // Made once, because many runs of one process ask for them, and only if one does: it takes a
  // while.
  if (has_framework(setting)) {
    static const BandBases kWith = bases_of(built_in_measured_errors(), true);
    add_bands(built_in_measured_errors(), setting, kWith, result);
  } else {
    static const BandBases kWithout = bases_of(built_in_measured_errors(), false);
    add_bands(built_in_measured_errors(), setting, kWithout, result);
  }
}

}  // namespace shardsim

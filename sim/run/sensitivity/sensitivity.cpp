#include "sim/run/sensitivity/sensitivity.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/kernel/error.hpp"

#include "reports/units.hpp"
#include "reports/verdict_words.hpp"

namespace shardsim {
namespace {

// A field and its value, which one quantity consists of.
struct FieldOfQuantity {
  std::string path;
  double value = 0;
};

// With no more digits than a person would compare.
std::string override_of(const std::string& path, double value) {
  return fmt::format("{}={:.12g}", path, value);
}

std::string tflops_words(double value, const char* precision) {
  return fmt::format("{} TFLOP/s in {}", format_number(value), precision);
}

std::string bandwidth_words(double value) { return format_number(value) + " GB/s"; }

void add_both(const std::string& quantity, const std::vector<FieldOfQuantity>& fields,
              const std::function<std::string(double factor)>& setting, double by,
              std::vector<SensitivityVariant>& variants) {
  if (fields.empty()) return;
  for (const double change : {-by, by}) {
    const double factor = 1.0 + change;
    SensitivityVariant variant{quantity, change, setting(factor), {}};
    for (const FieldOfQuantity& field : fields) {
      variant.overrides.push_back(override_of(field.path, field.value * factor));
    }
    variants.push_back(std::move(variant));
  }
}

// Training may compute in several precisions, so all peaks change together.
void add_computing(const Experiment& experiment, double by,
                   std::vector<SensitivityVariant>& variants) {
  const Scenario& scenario = experiment.scenario();
  const PeakTflops& peaks = scenario.system.device.peak_tflops;
  const std::pair<const char*, double> rows[] = {
      {"fp64", peaks.fp64.peek()}, {"fp32", peaks.fp32.peek()}, {"bf16", peaks.bf16.peek()},
      {"fp16", peaks.fp16.peek()}, {"fp8", peaks.fp8.peek()},   {"fp4", peaks.fp4.peek()}};
  std::vector<FieldOfQuantity> fields;
  for (const auto& [precision, value] : rows) {
    if (value > 0) {
      fields.push_back({fmt::format("system.device.peak_tflops.{}", precision), value});
    }
  }
  const DType product = scenario.training.product_dtype();
  const double shown = peaks.of(product).peek();
  const std::string name = to_string(product);
  add_both(
      "computing", fields,
      [&](double factor) { return tflops_words(shown * factor, name.c_str()); }, by, variants);
}

void add_bandwidth(const std::string& quantity, const std::vector<FieldOfQuantity>& fields,
                   double by, std::vector<SensitivityVariant>& variants) {
  add_both(
      quantity, fields,
      [&](double factor) { return bandwidth_words(fields.front().value * factor); }, by, variants);
}

// Samples of one microbatch of all replicas: a batch is a multiple of these.
std::int64_t unit_of_batch(const Experiment& experiment) {
  const Scenario& scenario = experiment.scenario();
  const std::int64_t unit =
      scenario.training.micro_batch_size * scenario.parallelism.data_parallel_size();
  // Interleaved schedules want a multiple of the stages.
  return scenario.parallelism.vpp > 1 ? unit * scenario.parallelism.pp : unit;
}

void add_batch(const Experiment& experiment, double by, std::vector<SensitivityVariant>& variants) {
  const Scenario& scenario = experiment.scenario();
  const std::int64_t batch = scenario.training.global_batch_size;
  const std::int64_t unit = unit_of_batch(experiment);
  const auto whole = static_cast<double>(batch);
  const std::int64_t units =
      std::max<std::int64_t>(1, std::llround(whole * by / static_cast<double>(unit)));
  const std::int64_t of_microbatch =
      scenario.training.micro_batch_size * scenario.parallelism.data_parallel_size();
  for (const std::int64_t change : {-units * unit, units * unit}) {
    const std::int64_t other = batch + change;
    if (other <= 0) continue;
    variants.push_back({"batch",
                        static_cast<double>(change) / whole,
                        format_count(other) + " samples",
                        {fmt::format("training.global_batch_size={}", other),
                         fmt::format("training.num_microbatches={}", other / of_microbatch)}});
  }
}

SensitivityBar bar_of(const SensitivityVariant& variant) {
  SensitivityBar bar;
  bar.quantity = variant.quantity;
  bar.by = variant.by;
  bar.setting = variant.setting;
  bar.overrides = variant.overrides;
  return bar;
}

// Warnings that the run itself does not have. A peak that a run does not use matters only if it
// uses none of those that were changed.
std::string new_warnings(const Result& base, const Result& result, const SensitivityBar& bar) {
  const auto is_of_field = [&bar](const std::string& warning) {
    return std::ranges::any_of(bar.overrides, [&warning](const std::string& override) {
      return warning.starts_with(override.substr(0, override.find('=')) + " ");
    });
  };
  std::vector<std::string> words;
  for (const std::string& warning : result.warnings) {
    if (std::ranges::find(base.warnings, warning) == base.warnings.end()) words.push_back(warning);
  }
  const auto unused = static_cast<std::size_t>(std::ranges::count_if(words, is_of_field));
  if (unused < bar.overrides.size()) std::erase_if(words, is_of_field);
  return fmt::format("{}", fmt::join(words, "; "));
}

void take_result(const Result& base, const Result& result, SensitivityBar& bar) {
  const auto step = result.number(metric::kStepTimeS);
  const auto rate = result.number(metric::kTokensPerS);
  const auto base_rate = base.number(metric::kTokensPerS);
  if (!step || !rate || !base_rate || !(*rate > 0)) {
    bar.note = verdict_text(result);
    return;
  }
  bar.step_s = *step;
  bar.tokens_per_s = *rate;
  bar.change = *base_rate / *rate - 1.0;
  const int no_room = static_cast<int>(ExitCode::does_not_fit);
  if (result.exit_code == no_room && base.exit_code != no_room) bar.note = "does not fit";
  if (const std::string words = new_warnings(base, result, bar); !words.empty()) {
    bar.note += (bar.note.empty() ? "" : "; ") + words;
  }
}

}  // namespace

std::vector<SensitivityVariant> sensitivity_variants(const Experiment& experiment, double by) {
  const SystemSpec& system = experiment.scenario().system;
  std::vector<SensitivityVariant> variants;
  add_computing(experiment, by, variants);
  add_bandwidth(
      "memory bandwidth",
      {{"system.device.memory_bandwidth_gb_per_s", system.device.memory_bandwidth_gb_per_s.peek()}},
      by, variants);
  if (system.gpus_per_node > 1) {
    std::vector<FieldOfQuantity> inside = {
        {"system.intra_node.bandwidth_gb_per_s", system.intra_node.bandwidth_gb_per_s.peek()}};
    if (system.pair_gb_per_s.peek() > 0) {
      inside.push_back({"system.intra_node.pair_gb_per_s", system.pair_gb_per_s.peek()});
    }
    add_bandwidth("links inside a node", inside, by, variants);
  }
  if (system.nodes > 1) {
    add_bandwidth(
        "links between nodes",
        {{"system.inter_node.bandwidth_gb_per_s", system.inter_node.bandwidth_gb_per_s.peek()}}, by,
        variants);
  }
  add_batch(experiment, by, variants);
  return variants;
}

std::vector<SensitivityBar> sensitivity_of(const Experiment& experiment, const Result& result,
                                           double by, const LoadVariant& load,
                                           const RunHooks& hooks) {
  const std::vector<SensitivityVariant> variants = sensitivity_variants(experiment, by);
  std::vector<SensitivityBar> bars;
  std::vector<std::optional<Scenario>> scenarios(variants.size());
  for (std::size_t i = 0; i < variants.size(); ++i) {
    bars.push_back(bar_of(variants[i]));
    try {
      scenarios[i] = load(variants[i].overrides);
      scenarios[i]->output = {};
    } catch (const Error& error) {
      bars[i].note = error.what();
    }
  }
  RunHooks quiet = hooks;
  if (hooks.in_parallel) quiet.on_progress = nullptr;  // It is for one thread.
  quiet.in_parallel = nullptr;
  quiet.detail = false;
  const auto body = [&](std::size_t i) {
    if (!scenarios[i]) return;
    try {
      take_result(result, run_scenario(std::move(*scenarios[i]), quiet).result, bars[i]);
    } catch (const Error& error) {
      if (error.exit_code() == ExitCode::internal) throw;
      bars[i].note = error.what();
    }
  };
  if (hooks.in_parallel) {
    hooks.in_parallel(variants.size(), body);
  } else {
    for (std::size_t i = 0; i < variants.size(); ++i) body(i);
  }
  return bars;
}

}  // namespace shardsim

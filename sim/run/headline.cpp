#include "sim/run/headline.hpp"

#include <string>

#include <fmt/format.h>

#include "strategies/gradient_sync/compressors.hpp"

#include "sim/experiment/assumptions.hpp"

namespace shardsim {

namespace {

// "tp 2, pp 4 (1f1b), dp_shard 8, zero 1": axes of one rank are left out, except dp_shard.
std::string layout_of(const ParallelismSpec& parallelism, const ModelSpec& model) {
  std::string words;
  if (parallelism.tp > 1) {
    words += fmt::format("tp {}{}, ", parallelism.tp,
                         parallelism.sequence_parallel ? " (sequence parallel)" : "");
  }
  if (parallelism.pp > 1) {
    const std::string chunks =
        parallelism.vpp > 1 ? fmt::format(" x {} chunks", parallelism.vpp) : "";
    words += fmt::format("pp {}{} ({}), ", parallelism.pp, chunks, parallelism.schedule);
  }
  if (parallelism.cp > 1) {
    words += fmt::format("cp {} ({}), ", parallelism.cp, to_string(parallelism.cp_attention));
  }
  if (model.num_experts > 0) {
    words +=
        fmt::format("ep {} ({} experts, top {}, {} routing), ", parallelism.ep, model.num_experts,
                    model.num_experts_per_token, to_string(model.moe_routing));
  }
  if (parallelism.dp_replicate > 1) {
    words += fmt::format("dp_replicate {}, ", parallelism.dp_replicate);
  }
  words += fmt::format("dp_shard {}, zero {}", parallelism.dp_shard, parallelism.zero_stage);
  if (parallelism.data_parallel != DataParallelKind::synchronous) {
    words += fmt::format(", {}", to_string(parallelism.data_parallel));
  }
  if (parallelism.compresses()) {
    words += fmt::format(", {} gradients", parallelism.compression.compressor->name);
  }
  return words;
}

}  // namespace

TextHeadline headline_of(const Experiment& experiment) {
  const Scenario& scenario = experiment.scenario();
  const ParallelismSpec& parallelism = scenario.parallelism;
  TextHeadline headline;
  headline.name = scenario.name;
  headline.model =
      scenario.model.preset.empty() ? to_string(scenario.model.family) : scenario.model.preset;
  headline.system = fmt::format("{} x {}", scenario.system.nodes, scenario.system.name);
  const std::string faults = faults_in_words(scenario.faults);
  if (!faults.empty()) headline.system += ", " + faults;
  headline.layout = layout_of(parallelism, scenario.model);
  headline.precision = to_string(scenario.training.precision);
  headline.batch =
      fmt::format("global batch {} ({} x {} x {} ranks), seq {}, reduce in {}",
                  scenario.training.global_batch_size, scenario.training.micro_batch_size,
                  scenario.training.num_microbatches, parallelism.data_parallel_size(),
                  scenario.model.seq_len, to_string(scenario.training.grad_reduce_dtype));
  headline.ranks = scenario.system.ranks;
  headline.steps = scenario.execution.steps;
  headline.tokens_total = scenario.training.tokens_total;
  headline.device_memory_bytes = static_cast<double>(scenario.system.device.memory_bytes);
  return headline;
}

}  // namespace shardsim

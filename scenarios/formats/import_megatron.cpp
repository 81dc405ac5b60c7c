#include "scenarios/formats/import_megatron.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "scenarios/formats/foreign_object.hpp"
#include "scenarios/formats/import_hf.hpp"
#include "scenarios/formats/import_system.hpp"
#include "scenarios/formats/megatron_rows.hpp"

namespace shardsim {

namespace {

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The first step of a run compiles, allocates and connects.
std::vector<double> settled(const std::vector<double>& values) {
  if (values.size() < 2) return values;
  return {values.begin() + 1, values.end()};
}

void import_measured(const MegatronRun& run, Import& import) {
  if (!run.step_ms.empty()) {
    const std::vector<double> steps = settled(run.step_ms);
    import.measure("elapsed time per iteration (ms)", fmt::format("{:.1f}", median_of(steps)),
                   fmt::format("step_time of {:.6g} s: median of {} steps without the first",
                               median_of(steps) / 1e3, steps.size()));
  }
  if (!run.tflops.empty()) {
    import.measure("throughput per GPU (TFLOP/s/GPU)",
                   fmt::format("{:.1f}", median_of(settled(run.tflops))), "the run's own count");
  }
  if (run.rank_parameters > 0) {
    import.measure("parameters on rank (0, 0)", std::to_string(run.rank_parameters),
                   "of its tensor and pipeline part");
  }
}

ForeignGpus gpus_of(MegatronArguments& arguments) {
  if (const auto world = arguments.integer("world_size", kForeignDegree))
    return {*world, "world_size"};
  const auto per_node = arguments.integer("nproc_per_node", kForeignDegree);
  const auto nodes = arguments.integer("nnodes", kForeignDegree);
  if (!per_node) return {};
  return {*per_node * nodes.value_or(1), "nnodes x nproc_per_node"};
}

}  // namespace

void import_megatron(const ImportRequest& request, Import& import) {
  const std::string& file = request.files.front();
  const SourceText source = {file, read_foreign_text(file)};
  MegatronArguments arguments = read_megatron_arguments(source);
  const MegatronRun run = read_megatron_run(source.text);
  std::vector<std::string> inexpressible;
  if (request.model.empty()) {
    inexpressible = import_megatron_model(arguments, run, import);
  } else {
    import_named_model(request.model, request.approximate, import);
    if (const auto length = arguments.integer("seq_length", kForeignSize)) {
      import.take("seq_length", std::to_string(*length), "model.seq_len", *length);
    }
  }
  const std::vector<std::string> training = megatron_training_limits(arguments);
  inexpressible.insert(inexpressible.end(), training.begin(), training.end());
  refuse_or_warn(inexpressible, file, request.approximate, import);
  const std::int64_t gpus = import_system(request, gpus_of(arguments), import);
  import_megatron_layout(arguments, gpus, import);
  import_megatron_training(arguments, import);
  import_measured(run, import);
  tell_unread_megatron(arguments, import);
}

}  // namespace shardsim

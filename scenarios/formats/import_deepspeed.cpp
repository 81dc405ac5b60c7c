#include "scenarios/formats/import_deepspeed.hpp"

#include <cmath>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "scenarios/formats/deepspeed_rows.hpp"
#include "scenarios/formats/import_hf.hpp"
#include "scenarios/formats/import_system.hpp"

namespace shardsim {

namespace {

constexpr const char* kBatch = "train_batch_size";
constexpr const char* kMicro = "train_micro_batch_size_per_gpu";
constexpr const char* kAccumulation = "gradient_accumulation_steps";

std::int64_t import_ds_degrees(ForeignObject& config, std::int64_t gpus, Import& import) {
  ForeignObject tensor = config.inner("tensor_parallel");
  const std::int64_t tp = tensor.integer("autotp_size", kForeignDegree).value_or(1);
  if (tp > 1) {
    import.take(tensor.name_of("autotp_size"), std::to_string(tp), "parallelism.tp", tp);
  }
  const std::int64_t sequence =
      config.integer("sequence_parallel_size", kForeignDegree).value_or(1);
  if (sequence > 1) {
    import.take("sequence_parallel_size", std::to_string(sequence), "parallelism.cp", sequence);
    import.derive("sequence_parallel_size", std::to_string(sequence), "parallelism.cp_attention",
                  std::string("ulysses"));
  }
  if (tp < 1 || sequence < 1 || gpus % (tp * sequence) != 0) {
    config.refuse(
        "E1364", tp > 1 ? "tensor_parallel" : "sequence_parallel_size",
        fmt::format("{} x {} ranks of tensor and sequence parallelism do not divide {} GPUs", tp,
                    sequence, gpus),
        "say with --gpus how many there are");
  }
  return gpus / (tp * sequence);
}

// Two of three imply the third; three must agree.
void import_ds_batch(ForeignObject& config, std::int64_t data, Import& import) {
  std::optional<std::int64_t> batch = config.integer(kBatch, kForeignSize);
  std::optional<std::int64_t> micro = config.integer(kMicro, kForeignDegree);
  const std::optional<std::int64_t> steps = config.integer(kAccumulation, kForeignDegree);
  for (const char* key : {kBatch, kMicro, kAccumulation}) {
    if (config.is_auto(key))
      import.warn(key, "auto", "the launching program fills it in: check it");
  }
  if (batch && micro && steps && *batch != *micro * *steps * data) {
    config.refuse(
        "E1364", kBatch,
        fmt::format("train_batch_size is {}, but {} per GPU x {} steps x {} data-parallel "
                    "ranks are {}",
                    *batch, *micro, *steps, data, *micro * *steps * data),
        fmt::format("correct one of them, or say with --gpus how many GPUs there are"));
  }
  if (micro) {
    import.take(kMicro, config.written(kMicro), "training.micro_batch_size", *micro);
  } else if (batch && *batch % (steps.value_or(1) * data) == 0) {
    micro = *batch / (steps.value_or(1) * data);
    import.derive(kMicro, config.written(kMicro), "training.micro_batch_size", *micro,
                  "train_batch_size over steps and ranks");
  } else {
    micro = 1;
    import.assume(kMicro, "training.micro_batch_size", *micro, "the file does not say it");
  }
  if (batch) {
    import.take(kBatch, config.written(kBatch), "training.global_batch_size", *batch);
  } else {
    import.derive(kAccumulation, config.written(kAccumulation), "training.global_batch_size",
                  *micro * steps.value_or(1) * data,
                  fmt::format("{} x {} x {} data-parallel ranks", *micro, steps.value_or(1), data));
  }
}

}  // namespace

void import_deepspeed(const ImportRequest& request, Import& import) {
  const std::unique_ptr<ForeignFile> file = read_foreign_json(request.files.front());
  ForeignObject config(&file->root);
  if (request.model.empty()) {
    throw UsageError("E1365", "a DeepSpeed configuration does not say which model is trained",
                     "add --model config.json (Hugging Face), or a preset: --model llama3-8b");
  }
  write_ds_precision(config, import);
  import_named_model(request.model, request.approximate, import);
  const std::int64_t gpus = import_system(request, {}, import);
  const std::int64_t data = import_ds_degrees(config, gpus, import);
  import_ds_batch(config, data, import);
  write_ds_sharding(config, import);
  write_ds_optimizer(config, import);
  for (const std::string& key : config.rest()) {
    import.ignore(key, config.written(key), "says nothing about cost, or is not modelled");
  }
}

}  // namespace shardsim

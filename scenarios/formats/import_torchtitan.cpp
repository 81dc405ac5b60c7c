#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "strategies/pipeline/schedule_row.hpp"

#include "scenarios/formats/foreign_object.hpp"
#include "scenarios/formats/import.hpp"
#include "scenarios/formats/torchtitan.hpp"

namespace shardsim {

namespace {

// In sequences.
struct TitanBatch {
  std::optional<std::int64_t> local;  ///< That of a data-parallel rank at a time, all microbatches.
  std::optional<std::int64_t> micro;  ///< Set if the file counts tokens.
  std::optional<std::int64_t> global;
};

// Reads a whole number. Nothing also for -1, torchtitan's word for "the rest".
std::optional<std::int64_t> integer_unless_rest(ForeignObject& section, const char* key,
                                                const ForeignRange& range) {
  if (section.integer(key, kForeignNumber) == -1) return std::nullopt;
  return section.integer(key, range);
}

constexpr const char* kCode = "E1376";

// Until 2026 keys count sequences, since then tokens.
struct TwoNames {
  const char* sequences;
  const char* tokens;
};

constexpr TwoNames kLength = {"seq_len", torchtitan::kLength.theirs};
constexpr TwoNames kLocal = {"local_batch_size", torchtitan::kLocal.theirs};
constexpr TwoNames kGlobal = {"global_batch_size", torchtitan::kGlobal.theirs};

// The name that the file has; the older one if it has neither.
const char* name_in(ForeignObject& training, const TwoNames& names) {
  const bool old = training.has(names.sequences);
  if (!training.has(names.tokens)) return names.sequences;
  if (old) {
    training.refuse(
        kCode, names.tokens,
        fmt::format("the file says both {} and {}", training.name_of(names.sequences),
                    training.name_of(names.tokens)),
        fmt::format("leave one of them: {} has been its name since 2026", names.tokens));
  }
  return names.tokens;
}

std::int64_t sequences_of(ForeignObject& training, const char* key, std::int64_t tokens,
                          std::optional<std::int64_t> length) {
  if (!length) {
    training.refuse(kCode, key,
                    fmt::format("{} counts tokens, and the file does not say of how long sequences",
                                training.name_of(key)),
                    fmt::format("add {}", training.name_of(kLength.tokens)));
  }
  if (tokens % *length != 0 || !kForeignDegree.has(tokens / *length)) {
    training.refuse(kCode, key,
                    fmt::format("{} is {}, which are not 1 to {} whole sequences of {}",
                                training.name_of(key), tokens, kForeignDegree.most, *length),
                    fmt::format("make it a multiple of {}", *length));
  }
  return tokens / *length;
}

bool is_piped(ForeignObject& parallelism) {
  return parallelism.integer(torchtitan::kPipeline.theirs, kForeignDegree).value_or(1) > 1;
}

// Microbatches of a pipeline's step; without a pipeline there is one.
std::int64_t microbatches_of(ForeignObject& parallelism, const TitanBatch& batch, Import& import) {
  const char* key = torchtitan::kMicrobatches;
  const auto told = parallelism.integer(key, kForeignDegree);
  const bool piped = is_piped(parallelism);
  if (told) {
    import.ignore(parallelism.at(key),
                  piped ? "follows here from batch, microbatch and ranks" : "there is no pipeline");
  } else if (piped && !batch.global) {
    import.warn(parallelism.at(key, ""),
                fmt::format("1 assumed: the file says neither it nor {}", kGlobal.tokens));
  }
  return piped ? told.value_or(1) : 1;
}

// Sequences of a data-parallel rank at a time. Writes the microbatch.
std::int64_t write_local(ForeignObject& training, ForeignObject& parallelism,
                         const TitanBatch& batch, Import& import) {
  const char* path = torchtitan::kLocal.ours;
  const char* key = "pipeline_parallel_microbatch_size";
  if (batch.micro) {
    import.derive(training.at(kLocal.tokens), path, *batch.micro, "tokens over max_context_length");
    return *batch.micro * microbatches_of(parallelism, batch, import);
  }
  const std::int64_t local = batch.local.value_or(1);
  const auto cut = parallelism.integer(key, kForeignDegree);
  const bool piped = is_piped(parallelism);
  const std::int64_t micro = piped ? cut.value_or(1) : local;
  if (!batch.local) {
    import.assume(training.name_of(kLocal.sequences), path, micro,
                  fmt::format("the file says neither it nor {}", kLocal.tokens));
  } else {
    import.derive(training.at(kLocal.sequences, std::to_string(local)), path, micro,
                  piped ? fmt::format("{}{}", key, cut ? "" : ", 1 by default") : "");
  }
  if (local % micro != 0) {
    parallelism.refuse(
        kCode, key,
        fmt::format("microbatches of {} do not cut a local batch of {} evenly", micro, local),
        "correct one of them in the file it was imported from");
  }
  return local;
}

// Writes model.seq_len, if the file gives it. Throws ScenarioError E1376: the file has a key under
// both names, or tokens are no whole sequences.
TitanBatch read_titan_batch(ForeignObject& training, Import& import) {
  TitanBatch batch;
  const char* key = name_in(training, kLength);
  const auto length = training.integer(key, kForeignSize);
  if (length) import.take(training.at(key), torchtitan::kLength.ours, *length);
  if (name_in(training, kLocal) == kLocal.sequences) {
    batch.local = training.integer(kLocal.sequences, kForeignDegree);
  } else if (const auto tokens = training.integer(kLocal.tokens, kForeignSize)) {
    batch.micro = sequences_of(training, kLocal.tokens, *tokens, length);
  }
  if (name_in(training, kGlobal) == kGlobal.sequences) {
    batch.global = integer_unless_rest(training, kGlobal.sequences, kForeignSize);
  } else if (const auto tokens = integer_unless_rest(training, kGlobal.tokens, kForeignSize)) {
    batch.global = sequences_of(training, kGlobal.tokens, *tokens, length);
  }
  return batch;
}

// Throws ScenarioError E1376: `data` data-parallel ranks do not divide the global batch.
void write_titan_batch(ForeignObject& training, ForeignObject& parallelism, const TitanBatch& batch,
                       std::int64_t data, Import& import) {
  const char* key = name_in(training, kGlobal);
  const std::int64_t local = write_local(training, parallelism, batch, import);
  const std::int64_t global = batch.global.value_or(local * data);
  if (global % (local * data) != 0) {
    training.refuse(kCode, key,
                    fmt::format("a global batch of {} sequences is not cut evenly by {} "
                                "data-parallel ranks of {} sequences",
                                global, data, local),
                    "give their number with --gpus");
  }
  import.derive(training.at(key, batch.global ? training.written(key) : "-1"),
                torchtitan::kGlobal.ours, global,
                batch.global ? "" : fmt::format("{} x {} data-parallel ranks", local, data));
}

void write_schedule(ForeignObject& parallelism, Import& import) {
  const auto csv = parallelism.text(torchtitan::kScheduleFile.theirs);
  if (csv && !csv->empty()) {
    const ForeignValue file = parallelism.at(torchtitan::kScheduleFile.theirs, *csv);
    import.take(file, torchtitan::kScheduleFile.ours, *csv);
    import.derive(file, torchtitan::kSchedule.ours, std::string(kScheduleFromFile));
    return;
  }
  const std::string name = parallelism.text(torchtitan::kSchedule.theirs)
                               .value_or(std::string(default_schedule().torchtitan));
  const ForeignValue theirs = parallelism.at(torchtitan::kSchedule.theirs, name);
  const ScheduleRow* const found = find_schedule(&ScheduleRow::torchtitan, name);
  if (found == nullptr) {
    import.warn(theirs, fmt::format("not a schedule that is known here: {} is used",
                                    default_schedule().name));
    return;
  }
  import.take(theirs, torchtitan::kSchedule.ours, std::string(found->name));
  if (const auto layers = parallelism.integer(torchtitan::kLayersPerStage, kForeignDegree)) {
    import.warn(parallelism.at(torchtitan::kLayersPerStage, std::to_string(*layers)),
                "set parallelism.vpp to num_layers / pp / this");
  }
}

std::int64_t write_degree(ForeignObject& parallelism, const NamePair& pair, Import& import) {
  const std::int64_t degree = parallelism.integer(pair.theirs, kForeignDegree).value_or(1);
  if (parallelism.has(pair.theirs)) import.take(parallelism.at(pair.theirs), pair.ours, degree);
  return degree;
}

std::int64_t shards_of(ForeignObject& parallelism, std::int64_t gpus, std::int64_t others,
                       std::int64_t replicas, Import& import) {
  const char* key = torchtitan::kShards.theirs;
  const auto told = integer_unless_rest(parallelism, key, kForeignDegree);
  const bool divides = gpus % others == 0 && gpus / others % replicas == 0;
  const std::int64_t shards = divides ? gpus / others / replicas : 0;
  if (!divides || (told && *told != shards)) {
    const double product = static_cast<double>(others) * static_cast<double>(replicas) *
                           static_cast<double>(told.value_or(1));
    parallelism.refuse("E1366", key,
                       fmt::format("degrees multiply to {:.0f}, which {} {} GPUs", product,
                                   told ? "are not" : "does not divide", gpus),
                       "give their number with --gpus");
  }
  import.derive(parallelism.at(key, std::to_string(told.value_or(-1))), torchtitan::kShards.ours,
                shards, told ? "" : "the GPUs that are left");
  return shards;
}

void write_sharding(ForeignObject& parallelism, std::int64_t shards, std::int64_t cp,
                    std::int64_t pp, Import& import) {
  const std::int64_t stage = shards * cp > 1 ? 3 : 0;
  import.derive(parallelism.at(torchtitan::kShards.theirs, std::to_string(shards)),
                "parallelism.zero_stage", stage, stage == 3 ? "FSDP2" : "DDP");
  if (stage == 0) return;
  const std::string policy = parallelism.text(torchtitan::kReshard.theirs).value_or("default");
  const bool reshard = policy == "always" || (policy == "default" && pp == 1);
  import.derive(parallelism.at(torchtitan::kReshard.theirs, policy), torchtitan::kReshard.ours,
                reshard);
}

void write_context(ForeignObject& parallelism, std::int64_t cp, Import& import) {
  if (cp == 1) return;
  const std::string method =
      parallelism.text("context_parallel_rotate_method").value_or("allgather");
  const ContextAttentionName theirs = &ContextAttentionRow::torchtitan;
  const ContextAttentionRow* form = find_context_attention(theirs, method);
  if (form == nullptr) form = &context_attention_in(theirs);
  import.derive(parallelism.at("context_parallel_rotate_method", method),
                "parallelism.cp_attention", std::string(form->name));
}

// Writes the parallelism section; returns the data-parallel ranks. Throws ScenarioError E1366.
std::int64_t write_titan_layout(ForeignObject& parallelism, std::int64_t gpus, Import& import) {
  const std::int64_t tp = write_degree(parallelism, torchtitan::kTensor, import);
  const std::int64_t pp = write_degree(parallelism, torchtitan::kPipeline, import);
  const std::int64_t cp = write_degree(parallelism, torchtitan::kContext, import);
  write_degree(parallelism, torchtitan::kExperts, import);
  write_degree(parallelism, torchtitan::kExpertTensor, import);
  const std::int64_t replicas = write_degree(parallelism, torchtitan::kReplicas, import);
  const std::int64_t shards = shards_of(parallelism, gpus, tp * pp * cp, replicas, import);
  if (tp > 1) {
    import.derive(parallelism.at(torchtitan::kTensor.theirs, std::to_string(tp)),
                  torchtitan::kSequence.ours,
                  parallelism.truth(torchtitan::kSequence.theirs).value_or(true),
                  "torchtitan's tensor parallelism has it");
  }
  if (parallelism.truth(torchtitan::kTensorOverlap.theirs).value_or(false)) {
    import.take(parallelism.at(torchtitan::kTensorOverlap.theirs, "true"),
                torchtitan::kTensorOverlap.ours, true);
  }
  if (pp > 1) write_schedule(parallelism, import);
  write_context(parallelism, cp, import);
  write_sharding(parallelism, shards, cp, pp, import);
  return shards * replicas;
}

// Writes precision and the clipping of gradients.
void write_titan_training(ForeignObject& training, Import& import) {
  take_number(training, {"max_norm", "training.max_grad_norm"}, import);
  const auto precision = [&](const NamePair& pair, const char* otherwise) {
    const std::string name = training.text(pair.theirs).value_or(otherwise);
    import.derive(training.at(pair.theirs, name), pair.ours, type_of_torch(name, "fp32"));
  };
  precision(torchtitan::kPrecision, "bfloat16");
  precision(torchtitan::kReduced, "float32");
}

// Writes optimizer and activation_checkpoint.
void write_titan_rest(ForeignObject& root, Import& import) {
  ForeignObject optimizer = root.inner("optimizer");
  if (const auto name = optimizer.text("name")) {
    import_optimizer(optimizer.name_of("name"), *name, &OptimizerNames::torchtitan, import);
  }
  for (const NamePair& row :
       {NamePair{"lr", "training.learning_rate"}, NamePair{"beta1", "training.beta1"},
        NamePair{"beta2", "training.beta2"}, NamePair{"eps", "training.epsilon"},
        NamePair{"weight_decay", "training.weight_decay"}}) {
    take_number(optimizer, row, import);
  }
  ForeignObject checkpoint = root.inner("activation_checkpoint");
  const std::string mode = checkpoint.text("mode").value_or("none");
  if (mode == "none" || mode == "full" || mode == "selective") {
    import.take(checkpoint.at("mode", mode), "training.recompute", mode);
  } else {
    import.warn(checkpoint.at("mode", mode), "not modelled: nothing is recomputed");
  }
  if (mode == "selective") {
    import.warn(checkpoint.at("mode", mode),
                "torchtitan's choice of operations differs: here modules are recomputed, see "
                "training.recompute_modules");
  }
}

struct Flavor {
  const char* model;
  const char* flavor;
  const char* preset;
};

// Flavors that equal a preset's model, to the last parameter.
constexpr std::array kFlavors = {
    Flavor{"llama3", "8B", "llama3-8b"},
    Flavor{"llama3", "70B", "llama3-70b"},
    Flavor{"llama3", "405B", "llama3-405b"},
};

void import_flavor(ForeignObject& model, const ImportRequest& request, Import& import) {
  const std::string name = model.text("name").value_or("");
  const std::string flavor = model.text("flavor").value_or("");
  if (!request.model.empty()) {
    import.ignore(model.at("flavor", name + " " + flavor), "--model is given");
    import_named_model(request.model, request.approximate, import);
    return;
  }
  const auto* found = std::find_if(kFlavors.begin(), kFlavors.end(), [&](const Flavor& each) {
    return name == each.model && flavor == each.flavor;
  });
  if (found == kFlavors.end()) {
    throw UsageError("E1367",
                     "the file names the model " + name + ", flavor " + flavor +
                         ", whose sizes are in torchtitan's code",
                     "add --model config.json (Hugging Face) or a model preset");
  }
  import.derive({model.name_of("name") + ", flavor", name + ", " + flavor}, "model.preset",
                std::string(found->preset));
}

}  // namespace

void import_torchtitan(const ImportRequest& request, Import& import) {
  const std::unique_ptr<ForeignFile> file = read_foreign_json(request.files.front());
  ForeignObject root(&file->root);
  ForeignObject model = root.inner("model");
  ForeignObject training = root.inner("training");
  ForeignObject parallelism = root.inner("parallelism");
  const TitanBatch batch = read_titan_batch(training, import);
  import_flavor(model, request, import);
  const std::int64_t gpus = import_system(request, {}, import);
  const std::int64_t data = write_titan_layout(parallelism, gpus, import);
  write_titan_batch(training, parallelism, batch, data, import);
  write_titan_training(training, import);
  write_titan_rest(root, import);
  for (const ForeignObject* section : {&model, &training, &parallelism}) {
    import.ignore_rest(*section, "not modelled");
  }
  for (const std::string& key : root.rest()) {
    import.ignore({key, "{...}"}, "says nothing about cost");
  }
}

}  // namespace shardsim

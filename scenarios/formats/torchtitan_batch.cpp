#include "scenarios/formats/torchtitan_batch.hpp"

#include <string>

#include <fmt/format.h>

namespace shardsim {

namespace {

constexpr const char* kCode = "E1376";

struct TwoNames {
  const char* sequences;
  const char* tokens;
};

constexpr TwoNames kLength = {"seq_len", "max_context_length"};
constexpr TwoNames kLocal = {"local_batch_size", "num_tokens_per_microbatch_per_dp_rank"};
constexpr TwoNames kGlobal = {"global_batch_size", "num_tokens_per_train_step"};

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
  return parallelism.integer("pipeline_parallel_degree", kForeignDegree).value_or(1) > 1;
}

// Microbatches of a pipeline's step; without a pipeline there is one.
std::int64_t microbatches_of(ForeignObject& parallelism, const TitanBatch& batch, Import& import) {
  const char* key = "num_pp_microbatches";
  const auto told = parallelism.integer(key, kForeignDegree);
  const bool piped = is_piped(parallelism);
  if (told) {
    import.ignore(parallelism.name_of(key), parallelism.written(key),
                  piped ? "follows here from batch, microbatch and ranks" : "there is no pipeline");
  } else if (piped && !batch.global) {
    import.warn(parallelism.name_of(key), "",
                fmt::format("1 assumed: the file says neither it nor {}", kGlobal.tokens));
  }
  return piped ? told.value_or(1) : 1;
}

// Sequences of a data-parallel rank at a time. Writes the microbatch.
std::int64_t write_local(ForeignObject& training, ForeignObject& parallelism,
                         const TitanBatch& batch, Import& import) {
  const char* path = "training.micro_batch_size";
  const char* key = "pipeline_parallel_microbatch_size";
  if (batch.micro) {
    import.derive(training.name_of(kLocal.tokens), training.written(kLocal.tokens), path,
                  *batch.micro, "tokens over max_context_length");
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
    import.derive(training.name_of(kLocal.sequences), std::to_string(local), path, micro,
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

}  // namespace

std::optional<std::int64_t> integer_unless_rest(ForeignObject& section, const char* key,
                                                const ForeignRange& range) {
  if (section.integer(key, kForeignNumber) == -1) return std::nullopt;
  return section.integer(key, range);
}

TitanBatch read_titan_batch(ForeignObject& training, Import& import) {
  TitanBatch batch;
  const char* key = name_in(training, kLength);
  const auto length = training.integer(key, kForeignSize);
  if (length) import.take(training.name_of(key), training.written(key), "model.seq_len", *length);
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
                    "say with --gpus how many there were");
  }
  import.derive(training.name_of(key), batch.global ? training.written(key) : "-1",
                "training.global_batch_size", global,
                batch.global ? "" : fmt::format("{} x {} data-parallel ranks", local, data));
}

}  // namespace shardsim

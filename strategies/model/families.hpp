#pragma once

#include <memory>

#include "strategies/model/make_model.hpp"

// One maker per family, each in the file of its name; make_model.cpp has the table.
// REQUIRES: options that make_model has checked.
namespace shardsim {

[[nodiscard]] std::unique_ptr<Model> make_mlp(const ModelOptions& options);
[[nodiscard]] std::unique_ptr<Model> make_gpt2(const ModelOptions& options);
[[nodiscard]] std::unique_ptr<Model> make_llama(const ModelOptions& options);

/// Throws UsageError unless heads and groups fit together and are divisible among tensor-parallel
/// ranks, and the values are to be real numbers.
void require_transformer(const ModelOptions& options);

/// Throws UsageError unless the context has the tensor parallelism that the model was made for. On
/// shapes alone a model of parts may run without: only the order of its gradients is then wanted.
void require_context(const ModelContext& context, const ModelOptions& options);
/// The same of context parallelism; `part` is the batch's, which must be the rank's.
void require_part(const ModelContext& context, const SequencePart& part,
                  const ModelOptions& options);

}  // namespace shardsim

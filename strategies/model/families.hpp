#pragma once

#include <memory>

#include "strategies/model/make_model.hpp"

// One maker per family, each in the file of its name; make_model.cpp has the table.
// REQUIRES: options that make_model has checked.
namespace shardsim {

[[nodiscard]] std::unique_ptr<Model> make_mlp(const ModelOptions& options);
[[nodiscard]] std::unique_ptr<Model> make_gpt2(const ModelOptions& options);
[[nodiscard]] std::unique_ptr<Model> make_llama(const ModelOptions& options);

/// Throws UsageError unless heads and groups fit together, and the values are to be real numbers.
void require_transformer(const ModelOptions& options);

}  // namespace shardsim

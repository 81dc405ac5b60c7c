#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/harness/check.hpp"
#include "sim/harness/training_program.hpp"

// References that a program under test shares no code with: the library's training on one device,
// and numbers that another program has written. A program that is its own reference, on one rank,
// hides every mistake that it makes there, too.
namespace shardsim {

/// A tensor as a program shows it.
struct ShownName {
  Shown what = Shown::output;
  std::string name;
};

/// The program's name for a tensor of a reference; nothing for a tensor that it does not show. The
/// argument is a name as in a state dump: "gradient.NAME", "parameter.NAME", "master.NAME",
/// "optimizer.STATE.NAME", "loss" (docs/guide/state-dump.md).
using ReferenceNames = std::function<std::optional<ShownName>(const std::string& tensor)>;

/// The names by which training_program() shows them; "loss" is an output.
[[nodiscard]] std::optional<ShownName> training_name(const std::string& tensor);

/// The library's training loop, model and optimizer on one rank. `strategy`: its model, optimizer
/// and batch count, its choices for many ranks do not.
[[nodiscard]] TrustedReference library_model(const TrainingStrategy& strategy,
                                             const ReferenceNames& names = training_name);

/// Whole tensors of safetensors files, one file for each step, the first step first. Integers are
/// tensors like others. Throws UsageError (E1212) for a file that cannot be read.
[[nodiscard]] TrustedReference golden_files(const std::vector<std::string>& paths,
                                            const ReferenceNames& names = training_name);

}  // namespace shardsim

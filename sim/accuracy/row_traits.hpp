#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sim/kernel/metric_rows.hpp"

#include "reports/result.hpp"
#include "sim/experiment/experiment.hpp"

// Two properties of a row's prediction that help to find why it is wrong: the parts of the
// predicted step, and the fields of the scenario with which an error may grow.
namespace shardsim {

/// A part of the step, as `shardsim run` prints it, of the rank that ends last.
struct StepPart {
  std::string_view key;    ///< In JSON, in seconds.
  std::string_view title;  ///< For people.
  std::string_view metric;
};
/// The parts sum to the step.
inline constexpr std::array<StepPart, 4> kStepParts{{
    {"compute_s", "compute", metric::kTimeComputeS.name},
    {"exposed_comm_s", "exposed comm", metric::kTimeExposedCommS.name},
    {"host_s", "host", metric::kTimeHostS.name},
    {"bubble_s", "bubble", metric::kTimeBubbleS.name},
}};
/// In seconds, in the order of kStepParts.
using StepParts = std::array<double, kStepParts.size()>;

/// None if the run did not end.
[[nodiscard]] std::optional<StepParts> step_parts_of(const Result& result);

/// A word, or a number with its text.
struct TraitValue {
  std::string text;
  std::optional<double> number;
};

struct Trait {
  std::string_view key;    ///< In JSON.
  std::string_view title;  ///< For people.
  bool is_of_all;          ///< Whether rows of different tables are grouped by it.
};
inline constexpr std::array<Trait, 11> kTraits{{
    {"framework", "framework", true},
    {"machine", "machine", true},
    {"precision", "precision", true},
    {"gpus", "GPUs", true},
    {"tp", "tp", false},
    {"pp", "pp", false},
    {"micro_batch_size", "microbatch", false},
    {"tokens_per_gpu", "tokens per GPU", false},
    {"sequence_length", "sequence length", false},
    {"layers", "layers", false},
    {"hidden_size", "hidden size", false},
}};
/// In the order of kTraits.
using RowTraits = std::array<TraitValue, kTraits.size()>;

/// Tokens are those of a step.
[[nodiscard]] RowTraits row_traits_of(const Experiment& experiment);

}  // namespace shardsim

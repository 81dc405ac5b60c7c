#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/diff/run_side.hpp"

// Two predicted steps with different work: another batch, other GPUs, another model. Their times
// alone say little, but their tokens/s per GPU can be compared.
namespace shardsim {

/// The work of a step; zeros if it is unknown.
struct StepWork {
  std::int64_t tokens = 0;
  std::int64_t gpus = 0;
  double tokens_per_s = 0.0;

  [[nodiscard]] bool is_told() const { return tokens > 0 && gpus > 0; }
  [[nodiscard]] double per_gpu() const { return tokens_per_s / static_cast<double>(gpus); }
  [[nodiscard]] double tokens_of_a_gpu() const {
    return static_cast<double>(tokens) / static_cast<double>(gpus);
  }
};

struct WorkChange {
  std::string model;  ///< "56 layers instead of 32"; empty: it is the same model.
  StepWork a;         ///< Both are known, or neither is.
  StepWork b;
};

/// Nothing if the work is the same or unknown, or if a side is measured: unlike_words covers that.
[[nodiscard]] std::optional<WorkChange> work_change(const RunSide& a, const RunSide& b);

/// Whether tokens/s per GPU read as the same.
[[nodiscard]] bool is_same_rate(const WorkChange& change);

/// "B's step takes 3.25 s instead of 1.63 s, for 2.00 times the tokens: 0.05 % more tokens/s per
/// GPU".
[[nodiscard]] std::string work_words(const WorkChange& change, const RunSide& a, const RunSide& b);

}  // namespace shardsim

#pragma once

// The spellings of every enumeration of a scenario, in the order of the enumerators. One array per
// enumeration serves the reader, the schema, the reference page and to_string().

#include <array>
#include <span>

#include "scenarios/scenario.hpp"

namespace shardsim {

inline constexpr std::array<const char*, 3> kModelFamilyNames = {"mlp", "gpt2", "llama"};
inline constexpr std::array<const char*, 5> kPrecisionNames = {"fp64", "fp32", "bf16", "fp16",
                                                               "fp8"};
inline constexpr std::array<const char*, 5> kOptimizerNames = {"sgd", "momentum", "adam", "adamw",
                                                               "rmsprop"};
inline constexpr std::array<const char*, 3> kLossScalingNames = {"none", "static", "dynamic"};
inline constexpr std::array<const char*, 2> kGradNormNames = {"l2", "inf"};
inline constexpr std::array<const char*, 2> kTensorModeNames = {"meta", "real"};
inline constexpr std::array<const char*, 2> kReductionOrderNames = {"rank", "ring"};
inline constexpr std::array<const char*, 3> kAllReduceNames = {"automatic", "ring", "tree"};
inline constexpr std::array<const char*, 5> kDataParallelNames = {"synchronous", "local_sgd",
                                                                  "diloco", "async_sgd", "elastic"};
inline constexpr std::array<const char*, 3> kGradientCompressionNames = {"none", "top_k", "int8"};
inline constexpr std::array<const char*, 6> kCompareOpNames = {"<", "<=", "==", "!=", ">=", ">"};

inline std::span<const char* const> choice_names(ModelFamily) { return kModelFamilyNames; }
inline std::span<const char* const> choice_names(Precision) { return kPrecisionNames; }
inline std::span<const char* const> choice_names(OptimizerKind) { return kOptimizerNames; }
inline std::span<const char* const> choice_names(LossScalingKind) { return kLossScalingNames; }
inline std::span<const char* const> choice_names(GradNorm) { return kGradNormNames; }
inline std::span<const char* const> choice_names(TensorMode) { return kTensorModeNames; }
inline std::span<const char* const> choice_names(ReductionOrder) { return kReductionOrderNames; }
inline std::span<const char* const> choice_names(AllReduceAlgorithm) { return kAllReduceNames; }
inline std::span<const char* const> choice_names(DataParallelKind) { return kDataParallelNames; }
inline std::span<const char* const> choice_names(GradientCompressionKind) {
  return kGradientCompressionNames;
}
inline std::span<const char* const> choice_names(CompareOp) { return kCompareOpNames; }

}  // namespace shardsim

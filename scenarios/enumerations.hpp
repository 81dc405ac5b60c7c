#pragma once

#include "backends/reduce.hpp"

// What a scenario chooses from. To add one: an enumerator here and its spelling in choices.hpp.
namespace shardsim {

enum class ModelFamily { mlp, gpt2, llama };
enum class Precision { fp64, fp32, bf16, fp16, fp8 };  // fp8: device peaks only, not training yet
enum class OptimizerKind { sgd, momentum, adam, adamw, rmsprop };
enum class LossScalingKind { none, constant, dynamic };
enum class GradNorm { l2, inf };
enum class TensorMode { meta, real };  // meta: shapes only (plan); real: numbers (verify)
enum class AllReduceAlgorithm { automatic, ring, tree };
enum class DataParallelKind { synchronous, local_sgd, diloco, async_sgd, elastic };
enum class GradientCompressionKind { none, top_k, int8 };
enum class CompareOp { less, less_equal, equal, not_equal, greater_equal, greater };

/// The spelling used in scenario files ("bf16", "automatic", "<=").
const char* to_string(ModelFamily family);
const char* to_string(Precision precision);
const char* to_string(OptimizerKind optimizer);
const char* to_string(LossScalingKind kind);
const char* to_string(GradNorm norm);
const char* to_string(TensorMode mode);
const char* to_string(ReductionOrder order);
const char* to_string(AllReduceAlgorithm algorithm);
const char* to_string(DataParallelKind kind);
const char* to_string(GradientCompressionKind kind);
const char* to_string(CompareOp op);

}  // namespace shardsim

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "sim/kernel/dtype.hpp"

#include "backends/reduce.hpp"

#include "strategies/model/context_attention.hpp"
#include "strategies/model/routing.hpp"
#include "strategies/training/loss_scale.hpp"

// The choices of a scenario and their spellings. A choice of a lower layer keeps that layer's
// enumeration: the field is bound to it. A new choice needs an enumerator and its spelling, or a
// row in the table of its layer, if the choice has one.
namespace shardsim {

// Enumerations of larger headers.
enum class Activation : std::uint8_t;          // strategies/model/feed_forward_activation.hpp
enum class Algorithm : std::uint8_t;           // sim/hardware/collective.hpp
enum class AttentionReach : std::uint8_t;      // strategies/model/attention_mask.hpp
enum class AmaxCompute : std::uint8_t;         // strategies/model/low_precision.hpp
enum class AmaxUpdate : std::uint8_t;          // strategies/model/low_precision.hpp
enum class ActivationStore : std::uint8_t;     // strategies/model/activation_store.hpp
enum class FeedForward : std::uint8_t;         // strategies/model/layer_options.hpp
enum class FactorShape : std::uint8_t;         // scenarios/machine_spec.hpp
enum class Mixer : std::uint8_t;               // strategies/model/layer_options.hpp
enum class MuonCoefficients : std::uint8_t;    // strategies/optimizer/muon.hpp
enum class MuonDataParallel : std::uint8_t;    // strategies/optimizer/muon.hpp
enum class MuonScale : std::uint8_t;           // strategies/optimizer/muon.hpp
enum class MuonTensorParallel : std::uint8_t;  // strategies/optimizer/muon.hpp
enum class NormKind : std::uint8_t;            // strategies/model/model_norm.hpp
enum class NormPlacement : std::uint8_t;       // strategies/model/model_norm.hpp
enum class NormType;                           // strategies/gradient_sync/gradient_sync.hpp
enum class QueryKeyNorm : std::uint8_t;        // strategies/model/make_model.hpp
enum class Recompute : std::uint8_t;           // strategies/model/recompute.hpp

enum class ModelFamily { mlp, gpt2, llama };
enum class TensorMode { meta, real };  // meta: shapes only (plan); real: numbers (verify)
enum class DataParallelKind { synchronous, local_sgd, diloco, async_sgd, elastic };
/// How often a token goes to experts of other ranks.
enum class ExpertDispatch : std::uint8_t { per_expert, per_node };
/// The elements of tokens on their way to experts: those of the training, or 8 bits with scales.
enum class ExpertPayload : std::uint8_t { training, blockwise, mxfp8 };
enum class CompareOp { less, less_equal, equal, not_equal, greater_equal, greater };

/// A training's: the type of all arithmetic, or, for fp8 and nvfp4, of the products of linear
/// layers beside bf16.
enum class Precision : std::uint8_t { fp64, fp32, bf16, fp16, fp8, nvfp4 };

// Spellings, in the order of the enumerators. One array per enumeration serves the reader, the
// schema, the reference page and to_string(). A type is fp8 only for peaks of devices.
inline constexpr std::array<const char*, 3> kModelFamilyNames = {"mlp", "gpt2", "llama"};
inline constexpr std::array<const char*, 5> kPrecisionNames = {"fp64", "fp32", "bf16", "fp16",
                                                               "fp8"};
inline constexpr std::array<const char*, 6> kTrainingPrecisionNames = {"fp64", "fp32", "bf16",
                                                                       "fp16", "fp8",  "nvfp4"};
inline constexpr std::array<const char*, 3> kLossScalingNames = {"none", "static", "dynamic"};
inline constexpr std::array<const char*, 2> kGradNormNames = {"l2", "inf"};
inline constexpr std::array<const char*, 2> kMuonCoefficientsNames = {"quintic", "simple"};
inline constexpr std::array<const char*, 3> kMuonScaleNames = {"spectral", "shape_scaling",
                                                               "unit_rms_norm"};
inline constexpr std::array<const char*, 3> kMuonTensorParallelNames = {"duplicated", "distributed",
                                                                        "blockwise"};
inline constexpr std::array<const char*, 2> kMuonDataParallelNames = {"layer_wise", "slices"};
inline constexpr std::array<const char*, 2> kTensorModeNames = {"meta", "real"};
inline constexpr std::array<const char*, 2> kReductionOrderNames = {"rank", "ring"};
inline constexpr std::array<const char*, 3> kAllReduceNames = {"automatic", "ring", "tree"};
inline constexpr std::array<const char*, 5> kDataParallelNames = {"synchronous", "local_sgd",
                                                                  "diloco", "async_sgd", "elastic"};
inline constexpr std::array<const char*, 2> kExpertDispatchNames = {"per_expert", "per_node"};
inline constexpr std::array<const char*, 3> kExpertPayloadNames = {"training", "blockwise",
                                                                   "mxfp8"};
inline constexpr std::array<const char*, 3> kAttentionReachNames = {"full", "sliding", "chunked"};
inline constexpr std::array<const char*, 5> kMixerNames = {"attention", "delta_net", "mamba",
                                                           "none", "attention_mamba"};
inline constexpr std::array<const char*, 4> kFeedForwardNames = {"auto", "dense", "experts",
                                                                 "none"};
inline constexpr std::array<const char*, 4> kQueryKeyNormNames = {"none", "per_head", "whole",
                                                                  "weightless"};
inline constexpr std::array<const char*, 6> kActivationNames = {
    "relu", "gelu_tanh", "squared_relu", "swiglu", "geglu_tanh", "clamped_swiglu"};
inline constexpr std::array<const char*, 3> kNormKindNames = {"rms_norm", "layer_norm",
                                                              "layer_norm_without_bias"};
inline constexpr std::array<const char*, 3> kNormPlacementNames = {"pre", "post", "sandwich"};
inline constexpr std::array<const char*, 2> kRouterScoreNames = {"softmax", "sigmoid"};
inline constexpr std::array<const char*, 2> kGroupScoreNames = {"sum", "maximum"};
inline constexpr std::array<const char*, 3> kActivationStoreNames = {"same", "e4m3", "blockwise"};
inline constexpr std::array<const char*, 2> kAmaxComputeNames = {"most_recent", "max"};
inline constexpr std::array<const char*, 2> kAmaxUpdateNames = {"step", "microbatch"};
inline constexpr std::array<const char*, 3> kRecomputeNames = {"none", "selective", "full"};
inline constexpr std::array<const char*, 4> kFactorShapeNames = {"none", "uniform", "exponential",
                                                                 "lognormal"};
inline constexpr std::array<const char*, 6> kCompareOpNames = {"<", "<=", "==", "!=", ">=", ">"};

inline std::span<const char* const> choice_names(ModelFamily) { return kModelFamilyNames; }
inline std::span<const char* const> choice_names(DType) { return kPrecisionNames; }
inline std::span<const char* const> choice_names(Precision) { return kTrainingPrecisionNames; }
inline std::span<const char* const> choice_names(LossScaling::Mode) { return kLossScalingNames; }
inline std::span<const char* const> choice_names(NormType) { return kGradNormNames; }
inline std::span<const char* const> choice_names(MuonCoefficients) {
  return kMuonCoefficientsNames;
}
inline std::span<const char* const> choice_names(MuonScale) { return kMuonScaleNames; }
inline std::span<const char* const> choice_names(MuonTensorParallel) {
  return kMuonTensorParallelNames;
}
inline std::span<const char* const> choice_names(MuonDataParallel) {
  return kMuonDataParallelNames;
}
inline std::span<const char* const> choice_names(TensorMode) { return kTensorModeNames; }
inline std::span<const char* const> choice_names(ReductionOrder) { return kReductionOrderNames; }
inline std::span<const char* const> choice_names(Algorithm) { return kAllReduceNames; }
inline std::span<const char* const> choice_names(DataParallelKind) { return kDataParallelNames; }
inline std::span<const char* const> choice_names(ExpertDispatch) { return kExpertDispatchNames; }
inline std::span<const char* const> choice_names(ExpertPayload) { return kExpertPayloadNames; }
inline std::span<const char* const> choice_names(ContextAttention) {
  return context_attention_names();
}
inline std::span<const char* const> choice_names(RoutingKind) { return routing_names(); }
inline std::span<const char* const> choice_names(AttentionReach) { return kAttentionReachNames; }
inline std::span<const char* const> choice_names(Mixer) { return kMixerNames; }
inline std::span<const char* const> choice_names(FeedForward) { return kFeedForwardNames; }
inline std::span<const char* const> choice_names(QueryKeyNorm) { return kQueryKeyNormNames; }
inline std::span<const char* const> choice_names(Activation) { return kActivationNames; }
inline std::span<const char* const> choice_names(NormKind) { return kNormKindNames; }
inline std::span<const char* const> choice_names(NormPlacement) { return kNormPlacementNames; }
inline std::span<const char* const> choice_names(RouterScore) { return kRouterScoreNames; }
inline std::span<const char* const> choice_names(GroupScore) { return kGroupScoreNames; }
inline std::span<const char* const> choice_names(Recompute) { return kRecomputeNames; }
inline std::span<const char* const> choice_names(ActivationStore) { return kActivationStoreNames; }
inline std::span<const char* const> choice_names(AmaxCompute) { return kAmaxComputeNames; }
inline std::span<const char* const> choice_names(AmaxUpdate) { return kAmaxUpdateNames; }
inline std::span<const char* const> choice_names(FactorShape) { return kFactorShapeNames; }
inline std::span<const char* const> choice_names(CompareOp) { return kCompareOpNames; }

/// The spelling used in scenario files ("bf16", "automatic", "<=").
template <typename Enum>
requires requires(Enum value) { choice_names(value); }
[[nodiscard]] const char* to_string(Enum value) {
  return choice_names(value)[static_cast<std::size_t>(value)];
}

}  // namespace shardsim

#pragma once

#include <cstdint>

// The metrics of a run, one row for each. From the rows come the names that a result lists
// and that `expect` takes, the schema of results and the page about scenarios. Code that writes or
// reads a metric takes the row's constant, metric::kMfu for "mfu"; the name stands nowhere else.
//
// A new metric needs a row here, at its place in the order of results, and the line that computes
// it. `shardsim schema result` then prints the new reports/schema/result.schema.json.
namespace shardsim {

/// Real: a finite number or, in JSON, null. Amount: a whole number, or a mean of some.
enum class MetricType : std::uint8_t { real, whole, amount, flag, text };

/// The results that have a metric. Unlisted: after the metrics that results promise.
enum class MetricScope : std::uint8_t { always, real_tensors, unlisted };

struct MetricRow {
  MetricType type;
  MetricScope scope;
  const char* unit;  ///< Empty: none.
  const char* name;  ///< Flat, dotted, stable.
  const char* meaning;
};

// Columns are the constant, type, scope, unit, name and meaning.
#define SHARDSIM_METRIC_ROWS(ROW)                                                                  \
  ROW(kStepTimeS, real, always, "s/step", "step_time_s", "Virtual time of one training step.")     \
  ROW(kTokensPerS, real, always, "tokens/s", "tokens_per_s",                                       \
      "Tokens trained per second, all ranks together.")                                            \
  ROW(kTokensPerSPerGpu, real, always, "tokens/s", "tokens_per_s_per_gpu", "The same, per rank.")  \
  ROW(kModelTflopsPerGpu, real, always, "TFLOP/s", "model_tflops_per_gpu",                         \
      "Arithmetic that the model needs, per second and rank, in 10^12; recomputation does not "    \
      "count.")                                                                                    \
  ROW(kMfu, real, always, "", "mfu",                                                               \
      "Model FLOP/s utilization: model_tflops_per_gpu by the device's peak.")                      \
  ROW(kHfu, real, always, "", "hfu", "Hardware FLOP/s utilization: recomputation counts.")         \
  ROW(kTimeComputeS, real, always, "s/step", "time.compute_s",                                     \
      "Time in which the last rank's compute stream is busy. With exposed_comm and bubble it "     \
      "adds up to the step.")                                                                      \
  ROW(kTimeExposedCommS, real, always, "s/step", "time.exposed_comm_s",                            \
      "That rank waits inside a communication's own start and end.")                               \
  ROW(kTimeBubbleS, real, always, "s/step", "time.bubble_s",                                       \
      "That rank waits before a communication's start; all remaining idleness counts, too.")       \
  ROW(kTimeHostS, real, always, "s/step", "time.host_s",                                           \
      "The part of the step that a compute stream waits for work that its host has not issued "    \
      "yet, on the rank that ends last.")                                                          \
  ROW(kTimeHiddenCommS, real, always, "s/step", "time.hidden_comm_s",                              \
      "Communication of that rank that ran beside compute.")                                       \
  ROW(kTimePipelineIdleSMax, real, always, "s/step", "time.pipeline_idle_s.max",                   \
      "With pipeline stages: from the first start of any rank to the last end of any, less "       \
      "what the rank that idles most computes.")                                                   \
  ROW(kTimePipelineIdleInSpanSMax, real, always, "s/step", "time.pipeline_idle_in_span_s.max",     \
      "With pipeline stages: from a rank's own first start to its own last end, less what it "     \
      "computes; of the rank with the most.")                                                      \
  ROW(kMemoryPeakBytesMax, whole, always, "bytes", "memory.peak_bytes.max",                        \
      "Device memory of the fullest rank at its peak.")                                            \
  ROW(kMemoryParamsBytesMax, whole, always, "bytes", "memory.params_bytes.max",                    \
      "The part of parameters at each rank's peak, the largest.")                                  \
  ROW(kMemoryGradsBytesMax, whole, always, "bytes", "memory.grads_bytes.max",                      \
      "The part of gradients at each rank's peak, the largest.")                                   \
  ROW(kMemoryOptimizerBytesMax, whole, always, "bytes", "memory.optimizer_bytes.max",              \
      "The part of optimizer state at each rank's peak, the largest.")                             \
  ROW(kMemoryActivationsBytesMax, whole, always, "bytes", "memory.activations_bytes.max",          \
      "The part of activations at each rank's peak, the largest.")                                 \
  ROW(kMemoryCommBytesMax, whole, always, "bytes", "memory.comm_bytes.max",                        \
      "The part of communication buffers at each rank's peak, the largest.")                       \
  ROW(kMemoryHostBytesMax, real, always, "bytes", "memory.host_bytes.max",                         \
      "Where something is offloaded: the most that a rank keeps in host memory.")                  \
  ROW(kMemoryAllocatedPeakBytesMax, whole, always, "bytes", "memory.allocated_peak_bytes.max",     \
      "The largest of each pipeline stage's first rank: bytes in blocks of the modelled "          \
      "caching allocator at their peak; what PyTorch calls max_memory_allocated.")                 \
  ROW(kMemoryAllocatedPeakBytesLastStage, whole, always, "bytes",                                  \
      "memory.allocated_peak_bytes.last_stage",                                                    \
      "The same of the last pipeline stage's first rank: what frameworks log.")                    \
  ROW(kMemoryReservedPeakBytesMax, whole, always, "bytes", "memory.reserved_peak_bytes.max",       \
      "The largest of these ranks: bytes that the allocator holds in segments at their peak; "     \
      "what PyTorch calls max_memory_reserved.")                                                   \
  ROW(kMemoryDeviceBytesMax, whole, always, "bytes", "memory.device_bytes.max",                    \
      "The largest of these ranks: reserved at the peak, the CUDA context and NCCL's buffers.")    \
  ROW(kMemoryAllocatorRetriesMax, whole, always, "", "memory.allocator_retries.max",               \
      "The most of these ranks: how often the device had no room, and unused segments were "       \
      "given back to it.")                                                                         \
  ROW(kMemoryPeakAllocation, text, always, "", "memory.peak_allocation",                           \
      "Which allocation made the largest peak of blocks: size, category, rank, and virtual "       \
      "time.")                                                                                     \
  ROW(kCommBytesSentTotal, amount, always, "bytes/step", "comm.bytes_sent.total",                  \
      "Payload bytes sent, all ranks together.")                                                   \
  ROW(kCommBytesSentMaxRank, amount, always, "bytes/step", "comm.bytes_sent.max_rank",             \
      "Payload bytes that the busiest rank sent.")                                                 \
  ROW(kCommBytesSentByAxisDp, amount, always, "bytes/step", "comm.bytes_sent.by_axis.dp",          \
      "Payload bytes sent on the dp axis.")                                                        \
  ROW(kCommBytesSentByAxisTp, amount, always, "bytes/step", "comm.bytes_sent.by_axis.tp",          \
      "Payload bytes sent on the tp axis.")                                                        \
  ROW(kCommBytesSentByAxisCp, amount, always, "bytes/step", "comm.bytes_sent.by_axis.cp",          \
      "Payload bytes sent on the cp axis.")                                                        \
  ROW(kCommBytesSentByAxisEp, amount, always, "bytes/step", "comm.bytes_sent.by_axis.ep",          \
      "Payload bytes sent on the ep axis.")                                                        \
  ROW(kCommBytesSentByAxisPp, amount, always, "bytes/step", "comm.bytes_sent.by_axis.pp",          \
      "Payload bytes sent on the pp axis.")                                                        \
  ROW(kCommCallsTotal, amount, always, "1/step", "comm.calls.total",                               \
      "Communication calls, all ranks together.")                                                  \
  ROW(kCommBytesSentPadding, amount, unlisted, "bytes/step", "comm.bytes_sent.padding",            \
      "Bytes sent beyond the payload, so that parts are of one size.")                             \
  ROW(kCommBytesSentScalars, amount, unlisted, "bytes/step", "comm.bytes_sent.scalars",            \
      "Bytes of single numbers, such as losses and norms, which are no payload.")                  \
  ROW(kCommMessagesTotal, amount, unlisted, "1/step", "comm.messages.total",                       \
      "Messages, all ranks together; of measured runs only.")                                      \
  ROW(kMoeLoadImbalance, amount, always, "", "moe.load_imbalance",                                 \
      "With experts: (token, slot) pairs of the expert that gets most, over the mean of all "      \
      "experts, of the layer in which that is largest; all steps together. 1 is balanced.")        \
  ROW(kMoeDroppedTokens, amount, always, "1/step", "moe.dropped_tokens",                           \
      "With a capacity: (token, slot) pairs that no expert had room for, per step. A mean over "   \
      "the steps.")                                                                                \
  ROW(kLossScalingSkippedSteps, whole, always, "", "loss_scaling.skipped_steps",                   \
      "With loss scaling: steps of the run that changed nothing, as a gradient overflowed. "       \
      "Traffic is then the mean over all steps.")                                                  \
  ROW(kLossScalingScale, real, always, "", "loss_scaling.scale",                                   \
      "With loss scaling: the factor after the last step.")                                        \
  ROW(kGoodputFraction, real, always, "", "goodput.fraction",                                      \
      "Share of the wall-clock time of a long training that is kept work, with the failures of "   \
      "`faults`; the rest are the lost shares.")                                                   \
  ROW(kGoodputFractionLow, real, always, "", "goodput.fraction_low",                               \
      "The same where failures are as frequent as the count they were taken from allows (90 % "    \
      "interval).")                                                                                \
  ROW(kGoodputFractionHigh, real, always, "", "goodput.fraction_high",                             \
      "The same where they are as rare.")                                                          \
  ROW(kGoodputEffectiveTokensPerS, real, always, "tokens/s", "goodput.effective_tokens_per_s",     \
      "tokens_per_s by goodput.fraction.")                                                         \
  ROW(kGoodputMtbfS, real, always, "s", "goodput.mtbf_s", "Mean time between job failures.")       \
  ROW(kGoodputCheckpointIntervalS, real, always, "s", "goodput.checkpoint_interval_s",             \
      "Training between two checkpoints.")                                                         \
  ROW(kGoodputCheckpointWriteS, real, always, "s", "goodput.checkpoint_write_s",                   \
      "How long training stands still for one.")                                                   \
  ROW(kGoodputYoungS, real, always, "s", "goodput.young_s",                                        \
      "Young's estimate of the best interval.")                                                    \
  ROW(kGoodputDalyS, real, always, "s", "goodput.daly_s",                                          \
      "Daly's higher-order estimate of the best interval.")                                        \
  ROW(kGoodputBestS, real, always, "s", "goodput.best_s",                                          \
      "The interval of the highest goodput by the exact form, to which those two are "             \
      "approximations.")                                                                           \
  ROW(kGoodputLostShareCheckpoint, real, always, "", "goodput.lost_share.checkpoint",              \
      "Share of the wall-clock time in which checkpoints are written that are kept.")              \
  ROW(kGoodputLostShareRework, real, always, "", "goodput.lost_share.rework",                      \
      "Share in which work is done that a failure throws away.")                                   \
  ROW(kGoodputLostShareRestart, real, always, "", "goodput.lost_share.restart",                    \
      "Share between a failure and the next work: detection and restart.")                         \
  ROW(kDrawsCount, whole, always, "", "draws.count",                                               \
      "How often `faults.draws` were drawn; only with draws, as all draws.*.")                     \
  ROW(kDrawsStepTimeSMean, real, always, "s/step", "draws.step_time_s.mean",                       \
      "Mean step time of the draws.")                                                              \
  ROW(kDrawsStepTimeSStandardError, real, always, "s/step", "draws.step_time_s.standard_error",    \
      "Its error.")                                                                                \
  ROW(kDrawsStepTimeSP5, real, always, "s/step", "draws.step_time_s.p5", "5 % of them are below.") \
  ROW(kDrawsStepTimeSP50, real, always, "s/step", "draws.step_time_s.p50", "The median.")          \
  ROW(kDrawsStepTimeSP95, real, always, "s/step", "draws.step_time_s.p95", "95 % are below.")      \
  ROW(kDrawsStepTimeSP99, real, always, "s/step", "draws.step_time_s.p99", "99 % are below.")      \
  ROW(kDrawsGoodputMean, real, always, "", "draws.goodput.mean",                                   \
      "With failures: mean goodput of the draws.")                                                 \
  ROW(kDrawsGoodputStandardError, real, always, "", "draws.goodput.standard_error", "Its error.")  \
  ROW(kDrawsGoodputP5, real, always, "", "draws.goodput.p5", "5 % of them are below.")             \
  ROW(kDrawsGoodputP50, real, always, "", "draws.goodput.p50", "The median.")                      \
  ROW(kDrawsGoodputP95, real, always, "", "draws.goodput.p95", "95 % are below.")                  \
  ROW(kDrawsDaysP5, real, always, "days", "draws.days.p5",                                         \
      "Days of `training.tokens_total` by a draw: 5 % below.")                                     \
  ROW(kDrawsDaysP50, real, always, "days", "draws.days.p50", "The median.")                        \
  ROW(kDrawsDaysP95, real, always, "days", "draws.days.p95", "95 % are below.")                    \
  ROW(kCostDays, real, always, "days", "cost.days",                                                \
      "Days that training.tokens_total take: by goodput.effective_tokens_per_s where failures "    \
      "are said, else by tokens_per_s.")                                                           \
  ROW(kCostGpuHours, real, always, "hours", "cost.gpu_hours", "Those days times 24 times ranks.")  \
  ROW(kCostUsd, real, always, "USD", "cost.usd", "Those hours times cost.usd_per_gpu_hour.")       \
  ROW(kModelParameters, whole, always, "", "model.parameters",                                     \
      "Elements of all tensors, without those of multi-token prediction.")                         \
  ROW(kModelActiveParameters, whole, always, "", "model.active_parameters",                        \
      "The same without those of experts that a token does not choose.")                           \
  ROW(kMtpParameters, whole, always, "", "model.mtp_parameters", "Those that MTP adds.")           \
  ROW(kRanks, whole, always, "", "ranks", "Size of the world.")                                    \
  ROW(kTraceHash, text, always, "", "trace_hash", "Hash of what every rank did, and when.")        \
  ROW(kOracleMaxRelErrorGrads, real, real_tensors, "", "oracle.max_rel_error.grads",               \
      "Largest relative error of the gradients against one rank training on the whole batch.")     \
  ROW(kOracleMaxRelErrorParams, real, real_tensors, "", "oracle.max_rel_error.params",             \
      "Largest relative error of the parameters against one rank training on the whole batch.")    \
  ROW(kOracleMaxRelErrorOptimizerState, real, real_tensors, "",                                    \
      "oracle.max_rel_error.optimizer_state", "The same of the optimizer state.")                  \
  ROW(kOracleMaxRelErrorLoss, real, real_tensors, "", "oracle.max_rel_error.loss",                 \
      "Largest relative error of the loss against one rank training on the whole batch.")          \
  ROW(kOracleMaxRelErrorNorm, real, real_tensors, "", "oracle.max_rel_error.norm",                 \
      "With a limit on the norm: that of the norm against the gradients that all ranks show.")     \
  ROW(kOraclePassed, flag, real_tensors, "", "oracle.passed", "Every error is within its bound.")

namespace metric {
#define SHARDSIM_METRIC(constant, type, scope, unit, name, meaning) \
  inline constexpr MetricRow constant{MetricType::type, MetricScope::scope, unit, name, meaning};
SHARDSIM_METRIC_ROWS(SHARDSIM_METRIC)
#undef SHARDSIM_METRIC
}  // namespace metric

}  // namespace shardsim

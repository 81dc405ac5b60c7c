#pragma once

#include <cstdint>

// How data-parallel ranks train one model where they do something else, on purpose, than summing
// every gradient in every step. Each has a setting in which it does just that.
namespace shardsim {

/// Replicas (dp_replicate) train on their own, each on its own samples, and are averaged after
/// every `sync_period` updates. Gradients, norms and clipping are those of a replica's own batch;
/// optimizer state stays its own.
/// Local SGD (Stich 2018, "Local SGD Converges Fast and Communicates Little"): parameters are
/// averaged. DiLoCo (Douillard et al. 2023): what a replica has moved since the last average, start
/// minus end, is averaged as an outer gradient, which SGD with Nesterov momentum applies at the
/// start. Neutral: a period of 1 with plain SGD; of DiLoCo besides outer rate 1 and momentum 0.
struct LocalTraining {
  std::int64_t sync_period = 0;      ///< Updates between averages; 0: replicas do not train apart.
  bool outer_optimizer = false;      ///< DiLoCo.
  double outer_learning_rate = 0.7;  // As the paper found best.
  double outer_momentum = 0.9;

  [[nodiscard]] bool acts() const { return sync_period > 0; }
};

struct CompressorRow;  // strategies/gradient_sync/compressors.hpp

/// Compressed gradients, and with some compressors sums, that ranks send instead of whole ones.
/// With error feedback the sender keeps the compression error, and adds it to the next message.
/// Sources: Seide 2014, Karimireddy 2019 (error feedback).
struct GradientCompression {
  const CompressorRow* compressor = nullptr;  ///< Null: whole gradients are sent.
  // Compressors read one or the other.
  double ratio = 0.1;             ///< Share of a bucket's elements, in (0, 1].
  std::int64_t block_size = 256;  ///< Elements that share a scale.
  bool error_feedback = true;

  [[nodiscard]] bool acts() const { return compressor != nullptr; }
};

/// Elements in the `ratio` of a bucket of `numel`, rounded up, and 1 at least.
[[nodiscard]] std::int64_t num_kept(const GradientCompression& compression, std::int64_t numel);
/// Blocks of a bucket of `numel`; the last may be smaller.
[[nodiscard]] std::int64_t num_blocks(const GradientCompression& compression, std::int64_t numel);

/// Throws UsageError for what is out of range.
void validate(const LocalTraining& local);
void validate(const GradientCompression& compression);

}  // namespace shardsim

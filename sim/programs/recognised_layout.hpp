#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/programs/recognised_model.hpp"

// How a recorded training is split over its ranks, by what its groups move and when.
namespace shardsim {

struct RecognisedLayout {
  int tp = 1;
  bool sequence_parallel = false;
  bool tp_is_outside_dp = false;  ///< Neighbours are data-parallel ranks.
  int dp_shard = 1;
  int dp_replicate = 1;
  int zero_stage = 0;
  bool reshards = true;  ///< At stage 3: gathers again for backward.
  bool reduces_every_microbatch = false;
  std::optional<DType> reduced;  ///< The type of gradients on their way; none: they stay.
  std::int64_t num_reduced = 0;  ///< Elements of gradients that a microbatch, or step, sends.
  int pp = 1;
  int vpp = 1;
  std::string schedule = {};              ///< "": none of those here.
  std::vector<std::int64_t> layers = {};  ///< By pipeline rank.
  std::int64_t vocabulary = 0;
  std::int64_t microbatches = 1;
  bool recomputes = false;
  bool clips = false;

  [[nodiscard]] std::int64_t num_layers() const;
};

/// Throws no_such_training.
[[nodiscard]] RecognisedLayout recognise_layout(const ProgramSet& set, const StepFacts& first,
                                                const RecognisedBlock& block);

/// The schedule in which all pipeline ranks do what the recorded ones do; "" if none does.
/// `ranks`: in the order of stages.
[[nodiscard]] std::string recognise_schedule(const std::vector<StepFacts>& ranks,
                                             const RecognisedLayout& layout,
                                             const RecognisedBlock& block, bool is_v);

}  // namespace shardsim

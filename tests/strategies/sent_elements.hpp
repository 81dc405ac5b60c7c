#pragma once

#include <cstdint>
#include <vector>

#include "strategies/mesh.hpp"
#include "strategies/model/make_model.hpp"

// The elements that each rank sends in a training step of a transformer. The formulas are those of
// data-, tensor-, sequence-, context- and pipeline-parallel training, with the shapes of the
// published architectures. Nothing here asks the strategies. Sources: Rajbhandari et al., "ZeRO"
// (SC20); Shoeybi et al., "Megatron-LM" (2019); Korthikanti et al., "Reducing Activation
// Recomputation" (2022).
namespace shardsim::test {

struct SendingCase {
  ModelOptions model;  ///< The whole one, gpt2 or llama; tensor_parallel is not read.
  MeshShape mesh;
  std::vector<std::int64_t> stage_layers;  ///< Blocks of each pipeline stage.
  int zero_stage = 0;
  bool reduce_every_microbatch = true;
  std::int64_t num_microbatches = 1;
  std::int64_t micro_batch_size = 1;
};

/// Elements, by axis; of payload, on rings.
struct SentElements {
  std::int64_t tp = 0;
  std::int64_t pp = 0;  ///< Tied embeddings' sums included.
  std::int64_t dp = 0;
  std::int64_t cp = 0;

  [[nodiscard]] std::int64_t total() const { return tp + pp + dp + cp; }
  SentElements& operator+=(const SentElements& other);
};

/// Elements sent by the rank at this place, whose shards hold 1/n of every parameter. Throws
/// std::logic_error where ranks do not divide a size: shares are then not equal.
[[nodiscard]] SentElements elements_sent(const SendingCase& c, const MeshPlace& at);
/// All ranks together.
[[nodiscard]] SentElements elements_sent(const SendingCase& c);

/// Elements sent by all ranks, on axis cp alone: data-parallel shares need not be equal.
[[nodiscard]] std::int64_t context_elements_sent(const SendingCase& c);

/// The elements that all ranks together send of `rows` rows of the vocabulary, in embedding and
/// head. They are a sum over ranks, which need not have equal shares. The model's vocab_size is not
/// read.
[[nodiscard]] SentElements vocabulary_elements_sent(const SendingCase& c, std::int64_t rows);
/// elements_sent, for a vocabulary that tensor-parallel ranks need not divide.
[[nodiscard]] SentElements elements_sent_of_any_vocabulary(SendingCase c);
/// The padding that is sent beside that, as all tensor-parallel ranks have as many rows. The last
/// ranks have too few of their own.
[[nodiscard]] SentElements vocabulary_padding_sent(const SendingCase& c);

}  // namespace shardsim::test

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "strategies/checkpoint/chunk.hpp"
#include "strategies/checkpoint/load.hpp"
#include "strategies/checkpoint/save.hpp"

// Global tensors with known bytes, cut up over ranks in any way, saved and loaded.
namespace shardsim::test {

inline const CheckpointPlace kStep2{.directory = "/run", .step = 2};

struct GlobalTensor {
  TensorInfo info;
  std::vector<std::byte> bytes;
};

/// All bytes differ from their neighbours and between tensors and versions.
[[nodiscard]] GlobalTensor make_tensor(const std::string& name, DType dtype,
                                       const std::vector<std::int64_t>& shape,
                                       std::uint64_t version = 0);

/// A chunk with storage of its own.
struct OwnChunk {
  TensorInfo info;
  ElementRuns elements;
  std::vector<std::byte> bytes;
  bool main = true;
};
/// The elements cut out of the tensor, one by one: the obvious version.
[[nodiscard]] OwnChunk cut(const GlobalTensor& tensor, const ElementRuns& elements);

/// Chunks by rank.
using RankChunks = std::vector<std::vector<OwnChunk>>;

/// Saves as the ranks of a run do, one after the other; reports go through their texts.
[[nodiscard]] SaveStatus save(FileSystem& files, const CheckpointPlace& place,
                              const RankChunks& ranks, const Scalars& scalars);

/// Loads these elements, into a buffer that held something else.
[[nodiscard]] std::vector<std::byte> load(CheckpointReader& reader, const TensorInfo& info,
                                          const ElementRuns& elements);

/// A small model's state at a step, on three ranks: a tensor in columns, one in flat shards, one
/// whole, a scalar tensor.
struct SampleState {
  std::vector<GlobalTensor> tensors;
  Scalars scalars;
  RankChunks ranks;
};
[[nodiscard]] SampleState make_sample(std::int64_t step);

/// Whether a checkpoint holds exactly this state.
[[nodiscard]] bool holds(CheckpointReader& reader, const SampleState& state);

}  // namespace shardsim::test

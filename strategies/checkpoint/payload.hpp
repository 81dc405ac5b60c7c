#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "strategies/checkpoint/chunk.hpp"
#include "strategies/checkpoint/file_system.hpp"
#include "strategies/checkpoint/manifest.hpp"

// A rank's file: safetensors, which any framework reads. Eight bytes of little-endian header
// length, the JSON header, the bytes of the tensors without gaps. Source: "Format" in the README of
// github.com/huggingface/safetensors. A whole tensor stands there with its name and shape, a part
// of one as the one-dimensional tensor "NAME#k" of its elements.
namespace shardsim {

/// The layout of a file that is yet to be written.
struct PayloadLayout {
  std::string header;      // With its length before it, padded so that tensors are aligned.
  std::vector<int> order;  // Indices of the chunks, as their bytes follow the header.
  std::vector<TensorInfo> tensors;  // For the report, by name.
  std::vector<StoredChunk> stored;  // In the order of the bytes.
  std::int64_t bytes = 0;           // Size of the whole file.
};

/// Throws CheckpointError (bad_chunk, too_large).
[[nodiscard]] PayloadLayout lay_out_payload(std::span<const Chunk> chunks, std::int64_t step,
                                            int rank);

/// The header and where the tensors begin, of a file that may be anything; throws FormatError.
struct PayloadHeader {
  std::vector<PayloadEntry> entries;
  std::int64_t data_offset = 0;
};
[[nodiscard]] PayloadHeader read_payload_header(InputFile& file);

}  // namespace shardsim

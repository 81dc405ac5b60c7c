#pragma once

#include <map>
#include <string>
#include <vector>

#include "backends/tensor.hpp"

// The safetensors format: 8 bytes, the length of the header as a little-endian number; the header,
// JSON of {"NAME": {"dtype": ..., "shape": [...], "data_offsets": [first, one past last]}, ...},
// filled up with spaces to a multiple of 8 bytes; the tensors, row-major and little-endian, without
// gaps. "__metadata__" of the header is a map of texts.
// Source: github.com/huggingface/safetensors, README.md and safetensors/src/tensor.rs.
namespace shardsim {

struct NamedTensor {
  std::string name;  ///< ASCII, without quotes, backslashes and control characters.
  Tensor values;
};

/// Returns a file of these tensors: the widest elements first, so that each is aligned, then by
/// name. Throws UsageError (E0955) for a dtype without a name in the format, for duplicate names,
/// and for names and metadata that need escapes. REQUIRES: all have data.
[[nodiscard]] std::string to_safetensors(std::vector<NamedTensor> tensors,
                                         const std::map<std::string, std::string>& metadata);

}  // namespace shardsim

#pragma once

#include <string>

#include "sim/diff/run_side.hpp"

// The differences that make two runs different tasks, not two ways to do one, in words. Each is
// empty if the sides agree or one does not have the field.
namespace shardsim {

/// "56 layers instead of 32, hidden size 6144 instead of 4096": the model's fields in a log.
[[nodiscard]] std::string shape_change(const RunSide& a, const RunSide& b);
/// The same for scenarios, which have all fields: family, vocabulary and sequence length, too.
[[nodiscard]] std::string model_change(const RunSide& a, const RunSide& b);
/// "64 sequences instead of 32, sequence length 4096 instead of 2048".
[[nodiscard]] std::string batch_change(const RunSide& a, const RunSide& b);
/// "16 instead of 8".
[[nodiscard]] std::string gpus_change(const RunSide& a, const RunSide& b);

/// Whether both describe their model well enough to call it the same.
[[nodiscard]] bool both_tell_shape(const RunSide& a, const RunSide& b);
[[nodiscard]] bool both_tell_gpus(const RunSide& a, const RunSide& b);

/// Appends a text that is not empty to a list.
void append(std::string& list, const std::string& text, const char* between);

}  // namespace shardsim

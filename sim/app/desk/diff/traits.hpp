#pragma once

#include <string>

#include "sim/app/desk/diff/run_side.hpp"

// What makes two runs different tasks, rather than two ways to do one, in words.
// Each is empty where the sides agree or one does not tell.
namespace shardsim {

/// "56 layers instead of 32, hidden size 6144 instead of 4096": what a log tells of its model.
[[nodiscard]] std::string shape_change(const RunSide& a, const RunSide& b);
/// The same for runs of scenarios, which tell all: family, vocabulary and sequence length, too.
[[nodiscard]] std::string model_change(const RunSide& a, const RunSide& b);
/// "64 sequences instead of 32, sequence length 4096 instead of 2048".
[[nodiscard]] std::string batch_change(const RunSide& a, const RunSide& b);
/// "16 instead of 8".
[[nodiscard]] std::string gpus_change(const RunSide& a, const RunSide& b);

/// Whether both tell so much of their model that it can be called the same.
[[nodiscard]] bool both_tell_shape(const RunSide& a, const RunSide& b);
[[nodiscard]] bool both_tell_gpus(const RunSide& a, const RunSide& b);

/// Appends a text that is not empty to a list.
void append(std::string& list, const std::string& text, const char* between);

}  // namespace shardsim

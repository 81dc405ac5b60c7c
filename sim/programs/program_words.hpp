#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

// The words of program files that are no names of other rooms' enumerators
// (docs/guide/program-format.md).
namespace shardsim {

inline constexpr const char* kProgramVersionKey = "shardsim_program";
inline constexpr std::array kComputeKindWords = {"matmul", "memory_bound", "host_transfer"};
inline constexpr std::array kLaunchWords = {"each_kernel", "graph", "within_graph"};
inline constexpr std::array kMarkWords = {"step_begins", "compute_begins", "compute_ends",
                                          "decided", "step_ends"};
inline constexpr std::array kTrafficWords = {"payload", "scalar"};
// In the order of CallKind, but for the first, which has the collective's name.
inline constexpr std::array kMessageWords = {"", "send", "recv", "batch"};
// In the order of ProgramStep::Kind.
inline constexpr std::string_view kStepLetters = "charfpwjstmueb";
inline constexpr std::size_t kStepsInLine = 200;
inline constexpr int kNumDTypes = 9;
inline constexpr int kNumReduceOps = 5;

template <class Enum, std::size_t N>
[[nodiscard]] const char* program_word_of(const std::array<const char*, N>& words, Enum value) {
  return words.at(static_cast<std::size_t>(value));
}

}  // namespace shardsim

#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "sim/kernel/diagnosis.hpp"

#include "backends/call_record.hpp"

// Calls of several members that should be one operation and are not: how they are compared and
// reported, the same on every backend.
namespace shardsim {

/// Whether two names or labels are the same text; quickest where they are the same literal.
[[nodiscard]] inline bool same_text(const char* a, const char* b) {
  return a == b || std::strcmp(a, b) == 0;
}

/// Whether both are the same call of a collective; where it was made may differ.
[[nodiscard]] bool same_call(const CallRecord& a, const CallRecord& b);

/// Whether a send and a receive are one message.
[[nodiscard]] bool same_message(const CallRecord& send, const CallRecord& recv);

struct MadeCall {
  int rank = 0;  ///< In the world.
  CallRecord record;
};

/// Code, summary, sides and hint of a collective that `agreeing` ranks called as `agreed`, and
/// `others` otherwise. REQUIRES: `others` is not empty and differs from `agreed`.
[[nodiscard]] Diagnosis explain_mismatched_calls(const std::string& group, std::int64_t sequence,
                                                 const CallRecord& agreed,
                                                 std::vector<int> agreeing,
                                                 std::span<const MadeCall> others);

/// The same of a message.
[[nodiscard]] Diagnosis explain_mismatched_message(std::int64_t sequence, const MadeCall& sender,
                                                   const MadeCall& receiver);

/// The likely culprit first: the smaller set, among equals the one with the lower first rank.
void sort_sides(Diagnosis& diagnosis);

}  // namespace shardsim

#pragma once

#include <deque>

#include "backends/fiber/fiber_group.hpp"
#include "backends/fiber/mailbox.hpp"

namespace shardsim {

/// The reason why no rank can continue: calls that do not match, if there are any; else a member
/// that will never come; else ranks that wait for each other in a cycle. One report, the root cause
/// only.
[[nodiscard]] Diagnosis explain_stall(const Engine& engine, const std::deque<FiberGroup>& groups,
                                      const Mailbox& mailbox);

/// The current waits of all ranks.
[[nodiscard]] std::vector<DiagnosisSide> waiting_sides(const Engine& engine);

}  // namespace shardsim

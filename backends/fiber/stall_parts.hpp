#pragma once

#include <deque>
#include <string>
#include <vector>

#include "sim/kernel/diagnosis.hpp"

#include "backends/fiber/call_repair.hpp"
#include "backends/fiber/fiber_group.hpp"
#include "backends/fiber/mailbox.hpp"

// The common part of reports on runs that stand still.
namespace shardsim {

/// A diagnosis of `operation`, with all but summary, sides and hint filled in.
[[nodiscard]] Diagnosis begin_report(const FiberOperation& operation, std::string code, Time time);
/// Fills in which operation it is about.
void locate(Diagnosis& diagnosis, const FiberOperation& operation, Time time);

/// Null: the rank waits for nothing.
[[nodiscard]] const FiberOperation* awaited_by(const Engine& engine, int rank);
/// "has finished", "waits in ... of group ...": then `site` is that of the call.
[[nodiscard]] std::string activity(const Engine& engine, int rank, CallSite& site);

/// The activities of `missing` ranks, which do not call: one side for each, those that have
/// finished first, then the smaller sets.
[[nodiscard]] std::vector<DiagnosisSide> missing_sides(const Engine& engine,
                                                       const std::vector<int>& missing);
/// Those that called it.
[[nodiscard]] DiagnosisSide waiting_side(const FiberOperation& operation);

/// Guesses about sends and receives without a counterpart, the plainest first.
[[nodiscard]] std::vector<Suspicion> guess_messages(const Engine& engine,
                                                    const std::deque<FiberGroup>& groups,
                                                    const Mailbox& mailbox, Time time);

/// The calls of its members differ.
[[nodiscard]] Diagnosis explain_mismatch(const CollectiveOperation& operation, Time time);

}  // namespace shardsim

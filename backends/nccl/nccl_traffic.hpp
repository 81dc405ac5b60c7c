#pragma once

#include <span>

#include "backends/call_record.hpp"
#include "backends/communicator.hpp"
#include "backends/message/message_plan.hpp"
#include "backends/traffic_counters.hpp"

namespace shardsim {

/// Traffic of one call of one member, by our own count: NCCL's ring, chain, star and pairwise
/// messages are those of the plans (message_plan.hpp), whose sums are the closed formulas.
struct CallTraffic {
  TrafficCounters moved;
  LinkTable links;  ///< Payload only; ranks in the group.
};

/// `width`: bytes per element of the plan's slices. `padding_at`: elements of the full buffer.
[[nodiscard]] CallTraffic count_traffic(const MessagePlan& plan, int member,
                                        const CallRecord& record, std::int64_t width,
                                        std::span<const ElementRange> padding_at);

/// Traffic of halves of point-to-point transfers.
[[nodiscard]] CallTraffic count_traffic(std::span<const P2pOp> halves, int member,
                                        const CallRecord& record);

}  // namespace shardsim

#pragma once

#include <string>
#include <vector>

#include "backends/call_record.hpp"
#include "backends/traffic_counters.hpp"

namespace shardsim {

/// Traffic of one group, as this member counted it.
struct GroupTraffic {
  std::string name;
  std::vector<int> members;  ///< World ranks.
  TrafficCounters counters;
  LinkTable links;  ///< Ranks in the group.
  SentByOperation by_operation;
};

/// Adds one call that has ended: what it moved, and the call itself.
void add_call(GroupTraffic& traffic, const CallRecord& call, bool point_to_point,
              const TrafficCounters& moved, const LinkTable& links);

}  // namespace shardsim

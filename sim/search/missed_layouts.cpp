#include "sim/search/missed_layouts.hpp"

#include <span>
#include <vector>

namespace shardsim {

bool MissedLayouts::next(std::int64_t least, OpenLayouts& miss) {
  while (!queue_.empty() && !is_over_()) {
    miss = queue_.pop();
    if (miss.bound.device_bytes >= least) return false;
    if (miss.num_data == done_.count(miss.place, miss.num_data)) continue;
    if (miss.closeness != Closeness::group) return true;
    const std::vector<OpenLayouts> parts = bounds_.parts_of(std::span(&miss, 1)).front();
    if (parts.empty()) queue_.push(miss);  // Stopped.
    for (const OpenLayouts& part : parts) {
      if (found_.is_too_large(part.bound)) queue_.push(part);
    }
  }
  return false;
}

}  // namespace shardsim

#include "sim/hardware/flows/end_queue.hpp"

#include <algorithm>
#include <functional>

namespace shardsim {
namespace {

bool holds(const EndQueue::Entry& entry, const std::vector<FlowState>& flows) {
  return flows[entry.slot].version == entry.version;
}

}  // namespace

void EndQueue::push(const Entry& entry, const std::vector<FlowState>& flows) {
  if (entries_.size() >= sweep_at_) sweep(flows);
  entries_.push_back(entry);
  std::push_heap(entries_.begin(), entries_.end(), std::greater<>());
}

std::optional<EndQueue::Entry> EndQueue::first(const std::vector<FlowState>& flows) {
  while (!entries_.empty()) {
    if (holds(entries_.front(), flows)) return entries_.front();
    pop();
  }
  return std::nullopt;
}

void EndQueue::pop() {
  std::pop_heap(entries_.begin(), entries_.end(), std::greater<>());
  entries_.pop_back();
}

void EndQueue::sweep(const std::vector<FlowState>& flows) {
  std::erase_if(entries_, [&flows](const Entry& entry) { return !holds(entry, flows); });
  std::make_heap(entries_.begin(), entries_.end(), std::greater<>());
  sweep_at_ = std::max<std::size_t>(1024, 4 * entries_.size());
}

}  // namespace shardsim

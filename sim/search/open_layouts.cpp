#include "sim/search/open_layouts.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace shardsim {

namespace {

// The heap's front is its least entry. A group comes before its candidates.
bool comes_later(const OpenLayouts& a, const OpenLayouts& b) {
  return std::tie(a.key, a.bound.device_bytes, a.index, a.closeness) >
         std::tie(b.key, b.bound.device_bytes, b.index, b.closeness);
}

}  // namespace

void OpenQueue::push(OpenLayouts entry) {
  entry.key = key_of_(entry.bound);
  heap_.push_back(entry);
  std::push_heap(heap_.begin(), heap_.end(), comes_later);
}

OpenLayouts OpenQueue::pop() {
  std::pop_heap(heap_.begin(), heap_.end(), comes_later);
  const OpenLayouts entry = heap_.back();
  heap_.pop_back();
  return entry;
}

std::vector<OpenLayouts> OpenQueue::take_all() { return std::exchange(heap_, {}); }

}  // namespace shardsim

#include "backends/work.hpp"

#include <vector>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

[[noreturn]] void refuse_tests() {
  throw UsageError("E0511", "this backend does not tell which of its works have ended",
                   "wait for one work after the other");
}

}  // namespace

bool WorkOwner::has_ended(void* /*operation*/) { refuse_tests(); }

std::size_t WorkOwner::first_ended(std::span<void* const> /*operations*/) { refuse_tests(); }

std::optional<std::size_t> wait_any(std::span<Work> works) {
  std::vector<void*> operations;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < works.size(); ++i) {
    if (!works[i].pending()) continue;
    operations.push_back(works[i].operation_);
    places.push_back(i);
  }
  if (places.empty()) return std::nullopt;
  const std::size_t place = places[works[places.front()].owner_->first_ended(operations)];
  works[place].wait();
  return place;
}

}  // namespace shardsim

#include "backends/fiber/order_watch.hpp"

#include <algorithm>
#include <string>

#include "backends/fiber/fiber_group.hpp"

namespace shardsim {

void OrderWatch::posted(int rank, const FiberOperation& operation, CallSite site,
                        const FiberOperation* after, Time now) {
  std::vector<UnderWay>& mine = under_way_[static_cast<std::size_t>(rank)];
  const UnderWay posted{&operation, {operation.group()->id(), operation.sequence()}, site};
  for (const UnderWay& other : mine) {
    if (other.name.first == posted.name.first || other.operation == after) continue;
    compare(rank, other, posted, now);
  }
  mine.push_back(posted);
}

void OrderWatch::waited(int rank, const FiberOperation& operation) {
  std::vector<UnderWay>& mine = under_way_[static_cast<std::size_t>(rank)];
  mine.erase(std::remove_if(mine.begin(), mine.end(),
                            [&](const UnderWay& other) { return other.operation == &operation; }),
             mine.end());
}

void OrderWatch::compare(int rank, const UnderWay& first, const UnderWay& second, Time now) {
  const bool in_order = first.name < second.name;
  const auto key =
      in_order ? std::pair(first.name, second.name) : std::pair(second.name, first.name);
  const auto [place, is_new] = seen_.try_emplace(key, Seen{in_order, rank, second.site});
  if (is_new || place->second.in_order == in_order) return;
  if (!warned_.try_emplace({key.first.first, key.second.first}, true).second) return;
  const FiberGroup& here = *first.operation->group();
  const FiberGroup& there = *second.operation->group();
  Diagnosis diagnosis;
  diagnosis.code = "NCCL_UNSAFE";
  diagnosis.summary = "ranks " + std::to_string(place->second.rank) + " and " +
                      std::to_string(rank) + " have operations of groups " + here.name() + " and " +
                      there.name() + " under way at once, posted in different orders";
  diagnosis.group = here.name();
  diagnosis.members = here.all_world_ranks();
  diagnosis.sequence = first.operation->sequence();
  diagnosis.time = now;
  const auto side = [&](int who, const FiberGroup& one, const FiberGroup& other, CallSite site) {
    diagnosis.sides.push_back({.ranks = {who},
                               .action = "posts to " + one.name() + ", then to " + other.name(),
                               .site = site});
  };
  side(rank, here, there, second.site);
  side(place->second.rank, there, here, place->second.second);
  diagnosis.hint =
      "legal here; NCCL may hang: post to different communicators in one order on all ranks, or "
      "wait in between";
  warnings_.push_back(std::move(diagnosis));
}

}  // namespace shardsim

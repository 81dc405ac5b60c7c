#include "backends/fiber/order_watch.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

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
  const UnderWay& lower = in_order ? first : second;
  const UnderWay& higher = in_order ? second : first;
  const Seen fresh{.lower = lower.operation->group(),
                   .higher = higher.operation->group(),
                   .time = now,
                   .in_order = {},
                   .reversed = {}};
  Seen& seen = seen_.try_emplace({lower.name, higher.name}, fresh).first->second;
  Side& side = in_order ? seen.in_order : seen.reversed;
  if (side.ranks.empty()) side.second = second.site;
  side.ranks.push_back(rank);
}

std::vector<Diagnosis> OrderWatch::warnings() const {
  std::vector<Diagnosis> found;
  std::set<std::pair<std::uint64_t, std::uint64_t>> warned;  // Pairs of groups.
  for (const auto& [key, seen] : seen_) {
    if (seen.in_order.ranks.empty() || seen.reversed.ranks.empty()) continue;
    if (!warned.emplace(key.first.first, key.second.first).second) continue;
    found.push_back(warning(key.first.second, seen));
  }
  return found;
}

Diagnosis OrderWatch::warning(std::int64_t sequence, const Seen& seen) {
  Diagnosis diagnosis;
  diagnosis.code = "NCCL_UNSAFE";
  diagnosis.group = seen.lower->name();
  diagnosis.members = seen.lower->all_world_ranks();
  diagnosis.sequence = sequence;
  diagnosis.time = seen.time;
  const auto add_side = [&](const Side& side, const FiberGroup& one, const FiberGroup& other) {
    std::vector<int> ranks = side.ranks;
    std::sort(ranks.begin(), ranks.end());
    diagnosis.sides.push_back({.ranks = std::move(ranks),
                               .action = "posts to " + one.name() + ", then to " + other.name(),
                               .site = side.second});
  };
  add_side(seen.in_order, *seen.lower, *seen.higher);
  add_side(seen.reversed, *seen.higher, *seen.lower);
  std::stable_sort(diagnosis.sides.begin(), diagnosis.sides.end(),
                   [](const DiagnosisSide& a, const DiagnosisSide& b) {
                     return a.ranks.size() < b.ranks.size();
                   });
  diagnosis.summary = "ranks " + format_ranks(diagnosis.sides[0].ranks) + " and " +
                      format_ranks(diagnosis.sides[1].ranks) + " have operations of groups " +
                      seen.lower->name() + " and " + seen.higher->name() +
                      " under way at once, posted in different orders";
  diagnosis.hint =
      "legal here; NCCL may hang: post to different communicators in one order on all ranks, or "
      "wait in between";
  return diagnosis;
}

}  // namespace shardsim

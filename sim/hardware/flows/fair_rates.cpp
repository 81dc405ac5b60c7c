#include "sim/hardware/flows/fair_rates.hpp"

#include <algorithm>
#include <functional>
#include <limits>

#include "sim/kernel/error.hpp"

namespace shardsim {
namespace {

constexpr FlowRate kHighestRate = std::numeric_limits<FlowRate>::max();

// The most that each connection of a link's rising flows can have. There is always room: of a link
// whose capacity has changed, all flows are in the region.
FlowRate share_of(const LinkState& link) {
  __extension__ using Unsigned128 = unsigned __int128;
  const auto room = static_cast<Unsigned128>(link.room);
  const auto rising = static_cast<std::uint64_t>(link.rising);
  const Unsigned128 share =
      (room >> 64U) == 0 ? static_cast<std::uint64_t>(room) / rising : room / rising;
  return share > static_cast<std::uint64_t>(kHighestRate) ? kHighestRate
                                                          : static_cast<FlowRate>(share);
}

// Whether a link is full for its open flows at `rate`.
bool holds_at(const LinkState& link, FlowRate rate) { return link.full && link.top == rate; }

}  // namespace

void FairRates::begin() {
  ++number_;
  region_.clear();
  touched_.clear();
  by_ceiling_.clear();
}

void FairRates::touch(LinkId id) {
  LinkState& link = tables_.links[id];
  if (link.region == number_) return;
  link.region = number_;
  link.free = link.room = link.spare;
  link.inside = 0;
  link.level = -1;
  touched_.push_back(id);
}

void FairRates::add(FlowSlot slot) {
  FlowState& flow = tables_.flows[slot];
  if (inside(flow)) return;
  flow.region = number_;
  region_.push_back(slot);
  for (const FlowCrossing& crossing : flow.crossings) {
    touch(crossing.link);
    LinkState& link = tables_.links[crossing.link];
    link.free += Int128{crossing.coefficient} * flow.rate;
    link.inside += crossing.coefficient;
  }
}

void FairRates::rate() {
  if (solver_ == RateSolver::whole) add_everything();
  if (solver_ == RateSolver::component) add_component();
  do {
    fill();
  } while (grow());
  refuse_empty_shares();
}

void FairRates::add_everything() {
  for (FlowSlot slot = 0; slot < tables_.flows.size(); ++slot) {
    if (tables_.flows[slot].active) add(slot);
  }
  for (LinkId link = 0; link < tables_.links.size(); ++link) touch(link);
}

void FairRates::add_component() {
  // The list grows while it is walked.
  for (std::size_t i = 0; i < touched_.size(); ++i) {
    for (const LinkMember& member : tables_.links[touched_[i]].members) add(member.slot);
  }
}

void FairRates::order_by_ceiling() {
  const auto slower = [this](FlowSlot a, FlowSlot b) {
    return tables_.flows[a].ceiling() < tables_.flows[b].ceiling();
  };
  const auto num_before = static_cast<std::ptrdiff_t>(by_ceiling_.size());
  by_ceiling_.insert(by_ceiling_.end(), region_.begin() + num_before, region_.end());
  std::sort(by_ceiling_.begin() + num_before, by_ceiling_.end(), slower);
  std::inplace_merge(by_ceiling_.begin(), by_ceiling_.begin() + num_before, by_ceiling_.end(),
                     slower);
}

void FairRates::start_link(LinkId id) {
  LinkState& link = tables_.links[id];
  link.room = link.free;
  link.rising = link.inside;
  link.level = -1;
  if (link.rising > 0) stops_.emplace_back(share_of(link), id);
}

void FairRates::fill() {
  order_by_ceiling();
  stops_.clear();
  for (const LinkId id : touched_) start_link(id);
  std::make_heap(stops_.begin(), stops_.end(), std::greater<>());
  for (const FlowSlot slot : region_) tables_.flows[slot].frozen = false;
  num_frozen_ = 0;
  std::size_t next = 0;
  while (num_frozen_ < region_.size()) {
    while (next < by_ceiling_.size() && tables_.flows[by_ceiling_[next]].frozen) ++next;
    FlowState& slowest = tables_.flows[by_ceiling_[next]];
    const bool link_stops = settle_first_stop();
    if (!link_stops || slowest.ceiling() <= stops_.front().first) {
      freeze(slowest, slowest.ceiling());
    } else {
      stop_links(stops_.front().first);
    }
  }
}

// Makes the heap's first share a true one. False: no link has rising flows.
bool FairRates::settle_first_stop() {
  while (!stops_.empty()) {
    const Stop stop = stops_.front();
    const LinkState& link = tables_.links[stop.second];
    const FlowRate share = link.rising > 0 ? share_of(link) : 0;
    if (link.rising > 0 && share == stop.first) return true;
    std::pop_heap(stops_.begin(), stops_.end(), std::greater<>());
    stops_.pop_back();
    if (link.rising == 0) continue;
    stops_.emplace_back(share, stop.second);
    std::push_heap(stops_.begin(), stops_.end(), std::greater<>());
  }
  return false;
}

// All links that stop at this level are found before the first of them freezes a flow.
void FairRates::stop_links(FlowRate level) {
  stopping_.clear();
  while (settle_first_stop() && stops_.front().first == level) {
    stopping_.push_back(stops_.front().second);
    std::pop_heap(stops_.begin(), stops_.end(), std::greater<>());
    stops_.pop_back();
  }
  for (const LinkId id : stopping_) {
    LinkState& link = tables_.links[id];
    link.level = level;
    for (const LinkMember& member : link.members) {
      FlowState& flow = tables_.flows[member.slot];
      if (inside(flow) && !flow.frozen) freeze(flow, level);
    }
  }
}

void FairRates::freeze(FlowState& flow, FlowRate level) {
  flow.frozen = true;
  flow.level = level;
  ++num_frozen_;
  for (const FlowCrossing& crossing : flow.crossings) {
    LinkState& link = tables_.links[crossing.link];
    link.room -= Int128{crossing.coefficient} * level;
    link.rising -= crossing.coefficient;
  }
}

// The local test around the region. Adds what fails it; false: nothing does.
bool FairRates::grow() {
  const std::size_t num_before = region_.size();
  const std::size_t num_touched = touched_.size();
  for (std::size_t i = 0; i < num_touched; ++i) look_at(touched_[i]);
  if (region_.size() > num_before) return true;
  // Whether another link holds a flow is known once all links have been looked at.
  for (std::size_t i = 0; i < num_touched; ++i) add_unheld(touched_[i]);
  return region_.size() > num_before;
}

void FairRates::look_at(LinkId id) {
  LinkState& link = tables_.links[id];
  const Profile profile = profile_of(link);
  link.top = profile.top;
  link.full = profile.open_at_top > 0 && link.room < profile.open_at_top;
  if (link.level >= 0 && profile.top > link.level) {
    add_faster(link, link.level);
  } else if (const FlowRate level = stops_below(link, profile); level >= 0) {
    add_faster(link, level - 1);
  }
}

FairRates::Profile FairRates::profile_of(const LinkState& link) const {
  Profile profile;
  for (const LinkMember& member : link.members) {
    const FlowState& flow = tables_.flows[member.slot];
    const FlowRate rate = rate_after(flow);
    const bool open = rate < flow.ceiling();
    if (rate > profile.top) {
      if (profile.open_at_top > 0) profile.second = profile.top;
      profile.top = rate;
      profile.at_top = profile.open_at_top = 0;
    }
    if (rate == profile.top) {
      profile.at_top += member.coefficient;
      if (open) profile.open_at_top += member.coefficient;
    } else if (open && rate > profile.second) {
      profile.second = rate;
    }
  }
  return profile;
}

// The lowest level below the highest rate at which the link would have stopped its flows; -1 if
// there is none. Nearly always the first line answers.
FlowRate FairRates::stops_below(const LinkState& link, const Profile& profile) {
  const auto excess = [&link](FlowRate from, FlowRate to, std::int64_t coefficient) {
    return Int128{coefficient} * (from - to - 1) + link.room;
  };
  if (profile.second < 0 || excess(profile.top, profile.second, profile.at_top) >= link.total) {
    return -1;
  }
  open_rates_.clear();
  for (const LinkMember& member : link.members) {
    const FlowState& flow = tables_.flows[member.slot];
    const FlowRate rate = rate_after(flow);
    if (rate < flow.ceiling() && rate < profile.top) open_rates_.emplace_back(rate, 0);
  }
  std::sort(open_rates_.begin(), open_rates_.end());
  open_rates_.erase(std::unique(open_rates_.begin(), open_rates_.end()), open_rates_.end());
  for (const auto& [level, unused] : open_rates_) {
    Int128 room = link.room;
    for (const LinkMember& member : link.members) {
      const FlowState& flow = tables_.flows[member.slot];
      const FlowRate rate = rate_after(flow);
      const bool rises = rate > level || (rate == level && rate < flow.ceiling());
      if (rises) room += Int128{member.coefficient} * (rate - level - 1);
    }
    if (room < 0) return level;
  }
  return -1;
}

void FairRates::add_faster(const LinkState& link, FlowRate than) {
  for (const LinkMember& member : link.members) {
    const FlowState& flow = tables_.flows[member.slot];
    if (!inside(flow) && flow.rate > than) add(member.slot);
  }
}

// Flows that the link held, and that no link holds any more.
void FairRates::add_unheld(LinkId id) {
  const LinkState& link = tables_.links[id];
  for (const LinkMember& member : link.members) {
    const FlowState& flow = tables_.flows[member.slot];
    if (inside(flow) || flow.bottleneck != id || holds_at(link, flow.rate)) continue;
    if (bottleneck_of(flow) == kNoLink) add(member.slot);
  }
}

LinkId FairRates::bottleneck_of(const FlowState& flow) const {
  const FlowRate rate = rate_after(flow);
  if (rate == flow.cap) return kNoLink;
  for (const FlowCrossing& crossing : flow.crossings) {
    const LinkState& link = tables_.links[crossing.link];
    if (flow.num_down > 0 ? link.capacity == 0 : holds_at(link, rate)) return crossing.link;
  }
  return kNoLink;
}

void FairRates::refuse_empty_shares() const {
  LinkId worst = kNoLink;
  for (const LinkId id : touched_) {
    if (tables_.links[id].level == 0) worst = std::min(worst, id);
  }
  if (worst == kNoLink) return;
  const LinkState& link = tables_.links[worst];
  throw LimitError("E0321",
                   concat("link ", link.name, " of ", link.capacity / kRateUnitsPerByte,
                          " bytes/s is shared by so many flows that each gets less than 1/",
                          kRateUnitsPerByte, " byte/s"),
                   "raise the link's bandwidth, or look for a wrong unit in it");
}

}  // namespace shardsim

#include "sim/hardware/flows/flow_network.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "sim/kernel/error.hpp"

namespace shardsim {
namespace {

constexpr std::int64_t kBeyondTheClock = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMostConnections = std::int64_t{1} << 61U;

// How long work takes at a rate, to the nearest picosecond: less than half of one is left after it.
std::int64_t duration_of(Int128 work, FlowRate rate) {
  const Int128 rounded = (2 * work + rate) / (Int128{2} * rate);
  return rounded < kBeyondTheClock ? static_cast<std::int64_t>(rounded) : kBeyondTheClock;
}

template <class Event>
void push_event(std::vector<Event>& heap, const Event& event) {
  heap.push_back(event);
  std::push_heap(heap.begin(), heap.end(), std::greater<>());
}

template <class Event>
Event take_event(std::vector<Event>& heap) {
  std::pop_heap(heap.begin(), heap.end(), std::greater<>());
  const Event event = heap.back();
  heap.pop_back();
  return event;
}

[[noreturn]] void refuse_demand(const std::string& message, const std::string& fix) {
  throw UsageError("E0323", message, fix);
}

}  // namespace

FlowNetwork::FlowNetwork(FlowOptions options)
    : options_(options), contention_(options.num_owners), rates_(tables_, options.solver) {}

LinkId FlowNetwork::add_link(std::string name, FlowRate capacity) {
  LinkState link;
  link.name = std::move(name);
  link.capacity = capacity;
  link.spare = room_of(capacity);
  link.counted_until = link.charged_until = tables_.now.picoseconds();
  tables_.links.push_back(std::move(link));
  return num_links() - 1;
}

std::uint32_t FlowNetwork::num_links() const {
  return static_cast<std::uint32_t>(tables_.links.size());
}

void FlowNetwork::change_capacity(LinkId link, Time at, FlowRate capacity) {
  if (at < tables_.now) {
    refuse_demand(concat("capacity of ", name(link), " is to change at a time that has passed"),
                  "change it now or later");
  }
  push_event(changes_, {at.picoseconds(), link, capacity});
}

void FlowNetwork::start(FlowId id, Time at, const FlowDemand& demand) {
  if (at < tables_.now) {
    refuse_demand("a flow is to start at a time that has passed", "start it now or later");
  }
  require(demand);
  const std::int64_t begins = (at + demand.latency).picoseconds();
  const FlowSlot slot = new_slot();
  FlowState& flow = tables_.flows[slot];
  flow.id = id;
  flow.cap = demand.rate_cap;
  flow.work = demand.work;
  flow.owner = options_.num_owners > 0 ? demand.owner : 0;
  flow.crossings.clear();
  for (const CrossedLink& use : demand.links) {
    flow.crossings.push_back({.link = use.link,
                              .coefficient = use.usage * use.weight,
                              .usage = use.usage,
                              .bytes = use.bytes});
  }
  const auto by_link = [](const FlowCrossing& a, const FlowCrossing& b) { return a.link < b.link; };
  if (!std::is_sorted(flow.crossings.begin(), flow.crossings.end(), by_link)) {
    std::sort(flow.crossings.begin(), flow.crossings.end(), by_link);
  }
  for (std::size_t i = 1; i < flow.crossings.size(); ++i) {
    if (flow.crossings[i].link == flow.crossings[i - 1].link) {
      refuse_demand(concat("a flow names link ", name(flow.crossings[i].link), " twice"),
                    "name each link once, with the sum of its usages");
    }
  }
  ++num_flows_;
  if (begins == tables_.now.picoseconds()) {
    begin(slot);
  } else {
    push_event(waiting_, {begins, slot});
  }
}

void FlowNetwork::require(const FlowDemand& demand) {
  if (demand.rate_cap < 1 || demand.work < 0 || demand.work > kLargestWork ||
      demand.latency < Time() || (options_.num_owners > 0 && demand.owner >= options_.num_owners)) {
    refuse_demand("a flow has no rate, a negative work or latency, too much work, or no such owner",
                  "see FlowDemand for what each may be");
  }
  for (const CrossedLink& use : demand.links) {
    if (use.link >= num_links()) refuse_demand("a flow uses a link that does not exist", "add it");
    if (use.usage < 1 || use.weight < 1 || use.usage > kLargestShare / use.weight) {
      refuse_demand(concat("a flow's usage or weight on link ", name(use.link), " is out of range"),
                    "use 1 to 2^40 for their product");
    }
  }
}

FlowSlot FlowNetwork::new_slot() {
  if (free_slots_.empty()) {
    tables_.flows.emplace_back();
    contention_.add_slot();
    return static_cast<FlowSlot>(tables_.flows.size() - 1);
  }
  const FlowSlot slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

// The flow's latency is over: it joins its links, and has no rate yet.
void FlowNetwork::begin(FlowSlot slot) {
  FlowState& flow = tables_.flows[slot];
  flow.rate = 0;
  flow.begun = flow.since = tables_.now.picoseconds();
  flow.left = flow.work;
  flow.num_down = 0;
  flow.bottleneck = kNoLink;
  flow.open = flow.slowed = false;
  flow.active = flow.work > 0;
  if (!flow.active) return ends_.push({flow.begun, slot, ++flow.version}, tables_.flows);
  for (std::uint32_t i = 0; i < flow.crossings.size(); ++i) {
    FlowCrossing& crossing = flow.crossings[i];
    LinkState& link = tables_.links[crossing.link];
    link.total += crossing.coefficient;
    if (link.total > kMostConnections) {
      throw LimitError("E0322",
                       concat("link ", link.name, " has more than 2^45 connections at once"),
                       "use fewer flows at a time");
    }
    if (link.capacity == 0) ++flow.num_down;
    crossing.place = static_cast<std::uint32_t>(link.members.size());
    link.members.push_back({slot, i, crossing.coefficient});
  }
  begun_.push_back(slot);
}

void FlowNetwork::solve() {
  while (!changes_.empty() && changes_.front().at <= tables_.now.picoseconds()) {
    apply(take_event(changes_));
  }
  if (begun_.empty() && changed_links_.empty() && resized_links_.empty()) return;
  rates_.begin();
  std::erase_if(begun_, [this](FlowSlot slot) { return take_if_it_fits(slot); });
  for (const FlowSlot slot : begun_) rates_.add(slot);
  for (const LinkId link : changed_links_) {
    // All flows that it held may have ended since.
    if (tables_.links[link].num_held > 0) rates_.touch(link);
  }
  for (const LinkId link : resized_links_) {
    rates_.touch(link);
    for (const LinkMember& member : tables_.links[link].members) rates_.add(member.slot);
  }
  begun_.clear();
  changed_links_.clear();
  resized_links_.clear();
  if (rates_.region().empty() && rates_.touched().empty()) return;
  rates_.rate();
  ++num_solves_;
  num_rated_ += static_cast<std::int64_t>(rates_.region().size());
  take_over();
}

// A flow that leaves each open flow of its links one more unit changes nobody: no link becomes
// full, and none would have stopped earlier.
bool FlowNetwork::take_if_it_fits(FlowSlot slot) {
  FlowState& flow = tables_.flows[slot];
  if (!options_.fits_check) return false;
  for (const FlowCrossing& crossing : flow.crossings) {
    const LinkState& link = tables_.links[crossing.link];
    if (link.spare - Int128{crossing.coefficient} * flow.cap < link.open) return false;
  }
  for (const FlowCrossing& crossing : flow.crossings) {
    LinkState& link = tables_.links[crossing.link];
    // A link that holds a flow may have become faster at this instant.
    contention_.charge(tables_, crossing.link);
    tables_.count(link);
    link.spare -= Int128{crossing.coefficient} * flow.cap;
  }
  set_rate(slot, flow.cap);
  return true;
}

void FlowNetwork::take_over() {
  // Delays are charged where something changes and nowhere else: each charge is rounded, and a
  // solver that looks at more links must round no more often.
  for (const FlowSlot slot : rates_.region()) {
    const FlowState& flow = tables_.flows[slot];
    if (flow.level == flow.rate) continue;
    for (const FlowCrossing& crossing : flow.crossings) contention_.charge(tables_, crossing.link);
  }
  for (const LinkId id : rates_.touched()) {
    tables_.count(tables_.links[id]);
    tables_.links[id].spare = tables_.links[id].room;
  }
  for (const FlowSlot slot : rates_.region()) {
    FlowState& flow = tables_.flows[slot];
    set_rate(slot, flow.level);
    hold(flow, rates_.bottleneck_of(flow));
  }
  // Neighbours that kept their rates may be held by another link now.
  for (const LinkId id : rates_.touched()) {
    const LinkState& link = tables_.links[id];
    for (const LinkMember& member : link.members) {
      FlowState& flow = tables_.flows[member.slot];
      if (rates_.inside(flow) || flow.bottleneck == kNoLink) continue;
      const bool holds = link.full && link.top == flow.rate && flow.open;
      if (holds ? id < flow.bottleneck : id == flow.bottleneck) {
        hold(flow, rates_.bottleneck_of(flow));
      }
    }
  }
}

void FlowNetwork::set_rate(FlowSlot slot, FlowRate rate) {
  FlowState& flow = tables_.flows[slot];
  const bool open = rate < flow.ceiling();
  if (open != flow.open) {
    flow.open = open;
    for (const FlowCrossing& crossing : flow.crossings) {
      tables_.links[crossing.link].open += open ? crossing.coefficient : -crossing.coefficient;
    }
  }
  flow.slowed = flow.slowed || rate < flow.cap;
  if (rate == flow.rate) return;
  const std::int64_t now = tables_.now.picoseconds();
  flow.left -= Int128{flow.rate} * (now - flow.since);
  flow.since = now;
  flow.rate = rate;
  ++flow.version;
  if (rate == 0) return;
  const std::int64_t takes = duration_of(flow.left, rate);
  const std::int64_t at = takes < kBeyondTheClock - now ? now + takes : kBeyondTheClock;
  ends_.push({at, slot, flow.version}, tables_.flows);
}

void FlowNetwork::hold(FlowState& flow, LinkId bottleneck) {
  if (flow.bottleneck == bottleneck) return;
  const auto change = [this](LinkId id, bool held) {
    if (id == kNoLink) return;
    LinkState& link = tables_.links[id];
    contention_.charge(tables_, id);
    tables_.count(link);
    link.num_held += held ? 1 : -1;
  };
  change(flow.bottleneck, false);
  change(bottleneck, true);
  flow.bottleneck = bottleneck;
}

std::optional<Time> FlowNetwork::next() {
  solve();
  if (num_flows_ == 0) return std::nullopt;
  const auto end = ends_.first(tables_.flows);
  if (!end && waiting_.empty() && changes_.empty()) return std::nullopt;
  std::int64_t at = end ? end->at : kBeyondTheClock;
  if (!waiting_.empty()) at = std::min(at, waiting_.front().at);
  if (!changes_.empty()) at = std::min(at, changes_.front().at);
  const Time time = Time::from_picoseconds(at);
  // This throws the clock's limit.
  return at < kBeyondTheClock ? time : time + Time::from_picoseconds(1);
}

void FlowNetwork::advance(Time at, std::vector<EndedFlow>& ended) {
  if (tables_.now < at) solve();
  tables_.now = at;
  const auto num_before = static_cast<std::ptrdiff_t>(ended.size());
  for (auto first = ends_.first(tables_.flows); first && first->at <= at.picoseconds();
       first = ends_.first(tables_.flows)) {
    ends_.pop();
    end(first->slot, ended);
  }
  std::sort(ended.begin() + num_before, ended.end(),
            [](const EndedFlow& a, const EndedFlow& b) { return a.id < b.id; });
  while (!changes_.empty() && changes_.front().at <= at.picoseconds()) apply(take_event(changes_));
  while (!waiting_.empty() && waiting_.front().at <= at.picoseconds()) {
    begin(take_event(waiting_).slot);
  }
}

void FlowNetwork::end(FlowSlot slot, std::vector<EndedFlow>& ended) {
  FlowState& flow = tables_.flows[slot];
  ++flow.version;
  --num_flows_;
  free_slots_.push_back(slot);
  if (flow.active) {
    hold(flow, kNoLink);
    for (const FlowCrossing& crossing : flow.crossings) leave(flow, crossing);
  }
  for (const FlowCrossing& crossing : flow.crossings) {
    tables_.links[crossing.link].bytes += crossing.bytes;
  }
  flow.active = false;
  const Time delay = delay_of(flow);
  contention_.settle(flow, slot, delay);
  ended.push_back({flow.id, delay});
}

Time FlowNetwork::delay_of(const FlowState& flow) const {
  if (!flow.slowed) return {};
  return tables_.now - Time::from_picoseconds(flow.begun + duration_of(flow.work, flow.cap));
}

void FlowNetwork::leave(const FlowState& flow, const FlowCrossing& crossing) {
  LinkState& link = tables_.links[crossing.link];
  contention_.charge(tables_, crossing.link);
  tables_.count(link);
  link.spare += Int128{crossing.coefficient} * flow.rate;
  link.total -= crossing.coefficient;
  if (flow.open) link.open -= crossing.coefficient;
  const LinkMember last = link.members.back();
  link.members[crossing.place] = last;
  tables_.flows[last.slot].crossings[last.crossing].place = crossing.place;
  link.members.pop_back();
  // Where it holds nobody, nobody rises. Nor does it become full for others: by the third condition
  // of the local test, a flow that is faster than they are leaves more than they lack.
  link.full = false;
  if (link.num_held > 0) changed_links_.push_back(crossing.link);
}

void FlowNetwork::apply(const Change& change) {
  LinkState& link = tables_.links[change.link];
  if (link.resized_at == change.at && change.capacity > link.capacity) return;
  tables_.count(link);
  link.resized_at = change.at;
  link.spare += room_of(change.capacity) - room_of(link.capacity);
  if ((link.capacity == 0) != (change.capacity == 0)) {
    for (const LinkMember& member : link.members) {
      tables_.flows[member.slot].num_down += change.capacity == 0 ? 1 : -1;
    }
  }
  link.capacity = change.capacity;
  resized_links_.push_back(change.link);
}

bool FlowNetwork::stalled() { return !next() && num_flows_ > 0; }

std::vector<std::string> FlowNetwork::stalled_links() {
  std::vector<std::string> names;
  if (!stalled()) return names;
  std::vector<LinkId> links;
  for (const FlowState& flow : tables_.flows) {
    if (flow.active) links.push_back(flow.bottleneck);
  }
  std::sort(links.begin(), links.end());
  links.erase(std::unique(links.begin(), links.end()), links.end());
  for (const LinkId link : links) names.push_back(name(link));
  return names;
}

std::vector<FlowView> FlowNetwork::flows() {
  solve();
  std::vector<FlowView> views;
  for (const FlowState& flow : tables_.flows) {
    if (flow.active) views.push_back({flow.id, flow.rate, flow.bottleneck});
  }
  std::sort(views.begin(), views.end(),
            [](const FlowView& a, const FlowView& b) { return a.id < b.id; });
  return views;
}

LinkTotals FlowNetwork::totals(LinkId id) {
  LinkState& link = tables_.links[id];
  tables_.count(link);
  return {link.bytes, link.busy, link.peak, Time::from_picoseconds(link.full_time)};
}

}  // namespace shardsim

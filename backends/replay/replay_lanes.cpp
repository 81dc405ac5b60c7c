#include "backends/replay/replay_lanes.hpp"

#include <algorithm>
#include <numeric>

#include "sim/kernel/hash.hpp"
#include "sim/kernel/last_rank.hpp"

namespace shardsim {

namespace {

// A rounded price by its factor, rounded once more. Prices of stragglers are rounded elsewhere, in
// lanes as in runs: Device::price.
Time scaled(Time price, double factor) {
  constexpr double kLargest = 0x1p62;
  const double picoseconds = static_cast<double>(price.picoseconds()) * factor + 0.5;
  if (picoseconds > kLargest) return Time::from_seconds(picoseconds);  // Throws.
  return Time::from_picoseconds(static_cast<std::int64_t>(picoseconds));
}

// By stream: whether a call comes behind another communication there, instead of behind what its
// rank has computed. All others start after their rank's clock, which is past all that it waited
// for.
std::vector<bool> behind_others(const RankProgram& program) {
  std::vector<bool> behind(program.groups.size());
  bool follows = false;
  for (const ProgramStep& step : program.steps) {
    if (step.kind == ProgramStep::Kind::follow) follows = true;
    if (step.kind != ProgramStep::Kind::post || !std::exchange(follows, false)) continue;
    behind[static_cast<std::size_t>(program.tables->call(step.row).group)] = true;
  }
  return behind;
}

std::uint64_t key_of(const ReplayOperation& operation) {
  RollingHash hash;
  hash.add(operation.group->id);
  hash.add(operation.sequence);
  if (operation.is_transfer()) {
    hash.add(static_cast<std::uint64_t>(operation.source));
    hash.add(static_cast<std::uint64_t>(operation.destination));
  }
  return hash.value();
}

}  // namespace

// --- Ranks -------------------------------------------------------------------------------------

void ReplayLanes::make_member(const ReplayGang& gang, std::size_t member,
                              const std::vector<bool>& behind, ReplayCodes& codes) {
  const std::size_t lanes = options_.lanes.size();
  const int rank = gang.ranks[member]->index();
  const double own = cluster_->faults == nullptr ? 1.0 : cluster_->faults->slowdown_of(rank);
  Member& made = gangs_[gang.number].emplace_back();
  made.rank = rank;
  made.clocks.resize(lanes);
  made.hosts.resize(lanes);
  made.computed.resize(lanes);
  made.begins.resize(lanes);
  made.ends.resize(lanes);
  made.free.resize(behind.size());
  for (std::size_t stream = 0; stream < behind.size(); ++stream) {
    if (behind[stream]) made.free[stream].resize(lanes);
  }
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    const LaneFaults& faults = options_.lanes[lane];
    if (options_.compute != nullptr) {
      made.jitter.emplace_back(DrawSequence(faults.key + static_cast<std::uint64_t>(rank)).next());
    }
    const double slowdown =
        faults.slowdown.empty() ? own : faults.slowdown[static_cast<std::size_t>(rank)];
    if (slowdown == own) continue;
    made.codes.resize(lanes, gang.code);
    made.codes[lane] = &codes.code(gang.program, slowdown);
  }
}

void ReplayLanes::begin(const Cluster& cluster, std::deque<ReplayGang>& gangs, ReplayCodes& codes) {
  cluster_ = &cluster;
  num_ranks_ = cluster.num_ranks();
  rules_ = cluster.device.stream_rules();
  gangs_.resize(gangs.size());
  for (const ReplayGang& gang : gangs) {
    const std::vector<bool> behind = behind_others(gang.program);
    for (std::size_t member = 0; member < gang.size(); ++member)
      make_member(gang, member, behind, codes);
  }
}

// Lane by lane within each work: those do not wait for each other's factors.
void ReplayLanes::draw_prices(const ClockStretch& stretch, std::vector<DrawSequence>& jitter) {
  const FactorTable& factors = *options_.compute;
  const std::size_t lanes = jitter.size();
  prices_.assign(lanes, Time());
  Time* const prices = prices_.data();
  DrawSequence* const draws = jitter.data();
  for (const ClockStretch::Work& work : stretch.works()) {
    const Time price = work.price;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      prices[lane] += scaled(price, factors.at(draws[lane].next()));
    }
  }
}

void ReplayLanes::run(const ReplayGang& gang, std::uint32_t stretch) {
  for (Member& member : gangs_[gang.number]) {
    const auto code_of = [&](std::size_t lane) -> const ClockStretch& {
      return (member.codes.empty() ? *gang.code : *member.codes[lane]).stretches[stretch];
    };
    const ClockStretch& common = gang.code->stretches[stretch];
    if (options_.compute == nullptr) {
      member.for_each([&](std::size_t lane, LaneClock& clock) { clock.run(code_of(lane)); });
    } else if (member.codes.empty() && common.host_is_free()) {
      draw_prices(common, member.jitter);
      member.for_each(
          [&](std::size_t lane, LaneClock& clock) { clock.run_as_one(common, prices_[lane]); });
    } else {
      member.for_each([&](std::size_t lane, LaneClock& clock) {
        clock.run(code_of(lane), [&](Time price) {
          return scaled(price, options_.compute->at(member.jitter[lane].next()));
        });
      });
    }
  }
}

void ReplayLanes::mark(const ReplayGang& gang, const ProgramMark& mark) {
  if (mark.step != options_.step) return;
  const bool begins = mark.kind == ProgramMark::Kind::step_begins;
  if (!begins && mark.kind != ProgramMark::Kind::step_ends) return;
  for (Member& member : gangs_[gang.number]) {
    std::vector<Time>& moments = begins ? member.begins : member.ends;
    for (std::size_t lane = 0; lane < moments.size(); ++lane) {
      moments[lane] = member.clocks[lane];
    }
  }
}

// --- Operations --------------------------------------------------------------------------------

void ReplayLanes::open(const ReplayOperation& operation) {
  const std::size_t lanes = options_.lanes.size();
  while (times_.size() <= operation.number) times_.emplace_back();
  Times& times = times_of(operation);
  times.starts.assign(lanes, Time());
  times.ends.resize(lanes);
}

void ReplayLanes::post(ReplayGang& gang, std::size_t member, const GangStream& stream,
                       const ReplayOperation& operation) {
  Member& own = gangs_[gang.number][member];
  std::vector<Time>& starts = times_of(operation).starts;
  const bool follows = gang.follows != nullptr;
  const auto place = static_cast<std::size_t>(&stream - gang.streams.data());
  const std::vector<Time>* const free =
      follows && stream.last == nullptr ? &own.free[place] : nullptr;
  own.for_each([&](std::size_t lane, LaneClock& clock) {
    Time ready = clock.post(follows, rules_);
    if (free != nullptr) ready = max(ready, (*free)[lane]);
    if (!operation.is_transfer()) clock.begin_collective(rules_);
    starts[lane] = max(starts[lane], ready);
  });
}

void ReplayLanes::post_freely(ReplayGang& gang, const GangWork& work) {
  const GangStream& stream = gang.streams[work.stream];
  const StreamRules rules = rules_;
  for (std::size_t i = 0; i < gang.size(); ++i) {
    Member& own = gangs_[gang.number][i];
    Time* const starts = times_of(stream.operation(work, i)).starts.data();
    own.for_each([=](std::size_t lane, LaneClock& clock) {
      starts[lane] = max(starts[lane], clock.post(false, rules));
      clock.begin_collective(rules);
    });
  }
}

void ReplayLanes::follow(const ReplayOperation& operation, const ReplayOperation& prior) {
  std::vector<Time>& starts = times_of(operation).starts;
  const std::vector<Time>& ends = times_of(prior).ends;
  for (std::size_t lane = 0; lane < starts.size(); ++lane) {
    starts[lane] = max(starts[lane], ends[lane]);
  }
}

void ReplayLanes::launch(const ReplayOperation& operation, Time price) {
  Times& times = times_of(operation);
  const std::uint64_t key = options_.communication == nullptr ? 0 : key_of(operation);
  for (std::size_t lane = 0; lane < times.ends.size(); ++lane) {
    Time own = price;
    if (options_.communication != nullptr) {
      DrawSequence draw(options_.lanes[lane].key ^ key);
      own = scaled(price, options_.communication->at(draw.next()));
    }
    times.ends[lane] = times.starts[lane] + own;
  }
}

void ReplayLanes::join(const ReplayOperation& operation) {
  Times& times = times_of(operation);
  times.ends = times.starts;
  for (const ReplayOperation* part : operation.parts) {
    const std::vector<Time>& starts = times_of(*part).starts;
    for (std::size_t lane = 0; lane < starts.size(); ++lane) {
      times.starts[lane] = min(times.starts[lane], starts[lane]);
    }
  }
}

void ReplayLanes::wait(ReplayGang& gang, const GangWork& work, bool is_transfer) {
  const StreamRules rules = rules_;
  const GangStream& stream = gang.streams[work.stream];
  for (std::size_t i = 0; i < gang.size(); ++i) {
    Member& own = gangs_[gang.number][i];
    const Times& times = times_of(stream.operation(work, i));
    const Time* const starts = times.starts.data();
    const Time* const ends = times.ends.data();
    own.for_each([=](std::size_t lane, LaneClock& clock) {
      clock.wait(starts[lane], ends[lane], is_transfer, rules);
    });
    std::vector<Time>& free = own.free[work.stream];
    for (std::size_t lane = 0; lane < free.size(); ++lane) {
      free[lane] = max(free[lane], times.ends[lane]);
    }
  }
}

std::vector<Time> ReplayLanes::step_times() const {
  std::vector<int> ranks(static_cast<std::size_t>(num_ranks_));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<const Member*> members(ranks.size());
  for (const std::vector<Member>& gang : gangs_) {
    for (const Member& member : gang) members[static_cast<std::size_t>(member.rank)] = &member;
  }
  std::vector<Time> times;
  for (std::size_t lane = 0; lane < options_.lanes.size(); ++lane) {
    const auto member_of = [&](int rank) { return members[static_cast<std::size_t>(rank)]; };
    const Member& last =
        *member_of(last_rank(ranks, [&](int rank) { return member_of(rank)->ends[lane]; }));
    times.push_back(last.ends[lane] - last.begins[lane]);
  }
  return times;
}

}  // namespace shardsim

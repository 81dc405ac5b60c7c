#include "backends/replay/replay_code.hpp"

#include <map>
#include <utility>

#include "backends/trace_hash.hpp"

namespace shardsim {

CallRecord record_of(const ProgramMessage& message, const ProgramCall& call) {
  return {.name = message.sends ? "send" : "recv",
          .dtype = message.dtype,
          .root = message.peer,
          .count = message.count,
          .label = call.record.label,
          .traffic = call.record.traffic,
          .site = call.record.site};
}

ProgramCall split_call(const std::string& name) {
  ProgramCall call;
  call.collective = collective::kSplit;
  call.record.name = collective::kSplit.name;
  call.record.label = name.c_str();
  call.record.traffic = TrafficClass::scalar;
  call.label_hash = hash_label(name);
  return call;
}

void add_hole(RankHash& hash, const ProgramHole& hole) {
  hash.add(hole.device.picoseconds());
  hash.add(hole.host.picoseconds());
}

void add_stream_step(RankHash& hash, const ProgramStep& step) {
  using Kind = ProgramStep::Kind;
  const StreamAction action = step.kind == Kind::use_stream     ? StreamAction::use
                              : step.kind == Kind::record_event ? StreamAction::record
                                                                : StreamAction::wait;
  add_stream_action(hash, action, step.row);
}

void hash_call(RankHash& hash, std::uint64_t path, const ProgramCall& call) {
  if (call.kind == CallKind::collective) {
    add_call(hash, path, static_cast<unsigned>(call.collective), call.record, call.label_hash);
    for (const std::int64_t count : call.send_counts) hash.add(count);
    for (const std::int64_t count : call.recv_counts) hash.add(count);
    return;
  }
  if (call.kind == CallKind::batch) {
    // The batch itself moves nothing: each half says how its bytes count.
    CallRecord record = call.record;
    record.traffic = TrafficClass::payload;
    add_call(hash, path, kBatchCode, record, call.label_hash);
  }
  for (const ProgramMessage& message : call.messages) {
    add_call(hash, path, message.sends ? kSendCode : kRecvCode, record_of(message, call),
             call.label_hash);
  }
}

// --- Digests -----------------------------------------------------------------------------------

void ProgramDigest::post(Group& group, const ProgramCall& call) {
  hash_call(hash_, group.path, call);
  if (call.kind == CallKind::collective) ++group.num_collectives;
}

void ProgramDigest::wait() {
  stretches_.push_back(hash_.stretch().value());
  hash_.stretch() = RollingHash();
}

void ProgramDigest::allocate(const ProgramAllocation& allocation) {
  (allocation.on_host ? host_ledger_ : ledger_).allocate(allocation.category, allocation.bytes);
}

void ProgramDigest::release(const ProgramAllocation& allocation) {
  (allocation.on_host ? host_ledger_ : ledger_).release(allocation.category, allocation.bytes);
}

ProgramDigest::ProgramDigest(const RankProgram& program) {
  using Kind = ProgramStep::Kind;
  const ProgramTables& tables = *program.tables;
  std::vector<Group> groups(program.groups.size());
  std::vector<std::uint32_t> allocations(program.num_allocations);
  for (const ProgramStep& step : program.steps) {
    switch (step.kind) {
      case Kind::compute:
        add_operation(hash_, tables.operation(step.row));
        flops_ += static_cast<double>(tables.operation(step.row).flops);
        break;
      case Kind::hole:
        add_hole(hash_, tables.hole(step.row));
        break;
      case Kind::allocate:
        allocations[step.slot] = step.row;
        allocate(tables.allocation(step.row));
        break;
      case Kind::release:
        release(tables.allocation(allocations[step.slot]));
        break;
      case Kind::post: {
        const ProgramCall& call = tables.call(step.row);
        post(groups[static_cast<std::size_t>(call.group)], call);
        break;
      }
      case Kind::wait:
        wait();
        break;
      case Kind::join: {
        const ProgramGroup& made = program.groups[step.row];
        Group& parent = groups[static_cast<std::size_t>(made.parent)];
        groups[step.row].path = path_of_child(parent.path, parent.num_collectives);
        post(parent, split_call(made.name));
        wait();
        break;
      }
      case Kind::tally:
        tallies_.push_back(step.row);
        break;
      case Kind::use_stream:
      case Kind::record_event:
      case Kind::wait_event:
        add_stream_step(hash_, step);
        break;
      case Kind::follow:
      case Kind::synchronize:
      case Kind::mark:
        break;
    }
  }
}

// --- Code --------------------------------------------------------------------------------------

namespace {

// By step: whether nobody waits for its event afterwards, before it is recorded again.
std::vector<bool> last_uses(const std::vector<ProgramStep>& steps, std::uint32_t num_events) {
  using Kind = ProgramStep::Kind;
  std::vector<bool> is_last(steps.size());
  std::vector<bool> is_awaited(num_events);
  for (std::size_t at = steps.size(); at > 0; --at) {
    const ProgramStep& step = steps[at - 1];
    const bool waits = step.kind == Kind::wait_event;
    if (!waits && step.kind != Kind::record_event) continue;
    is_last[at - 1] = !is_awaited[step.row];
    is_awaited[step.row] = waits;
  }
  return is_last;
}

// A recorder may take a new number for each event. Returns how many places they need at once.
std::uint32_t share_event_places(std::vector<ProgramStep>& steps, std::uint32_t num_events) {
  using Kind = ProgramStep::Kind;
  const std::vector<bool> is_last = last_uses(steps, num_events);
  std::vector<std::uint32_t> place_of(num_events);
  std::vector<std::uint32_t> free;
  std::uint32_t count = 0;
  for (std::size_t at = 0; at < steps.size(); ++at) {
    ProgramStep& step = steps[at];
    if (step.kind != Kind::wait_event && step.kind != Kind::record_event) continue;
    std::uint32_t& place = place_of[step.row];
    if (step.kind == Kind::record_event) {
      place = free.empty() ? count++ : free.back();
      if (!free.empty()) free.pop_back();
    }
    if (is_last[at]) free.push_back(place);
    step.row = place;
  }
  return count;
}

}  // namespace

ReplayCode::ReplayCode(const RankProgram& program, const std::vector<Price>& prices,
                       const StreamRules& rules, const std::set<std::size_t>& asked) {
  using Kind = ProgramStep::Kind;
  constexpr std::uint32_t kSynchronizes = ~std::uint32_t{0};
  const auto first_hole = static_cast<std::uint32_t>(program.tables->num_operations());
  std::vector<std::uint32_t> works;  // Since the last call.
  std::map<std::vector<std::uint32_t>, std::uint32_t> known;
  const auto close = [&] {
    if (works.empty()) return;
    const auto [found, is_new] =
        known.try_emplace(works, static_cast<std::uint32_t>(stretches.size()));
    if (is_new) {
      ClockStretch& stretch = stretches.emplace_back(rules);
      for (const std::uint32_t row : works) {
        if (row == kSynchronizes) {
          stretch.synchronize();
        } else {
          stretch.launch(prices[row].host, prices[row].device);
        }
      }
    }
    steps.push_back({.kind = Kind::compute, .slot = 0, .row = found->second});
    works.clear();
  };
  auto next_asked = asked.begin();
  for (std::size_t at = 0; at < program.steps.size(); ++at) {
    const ProgramStep& step = program.steps[at];
    if (next_asked != asked.end() && *next_asked == at) {
      close();
      this->asked.push_back(steps.size());
      ++next_asked;
    }
    switch (step.kind) {
      case Kind::compute:
        works.push_back(step.row);
        break;
      case Kind::hole:
        works.push_back(first_hole + step.row);
        break;
      case Kind::synchronize:
        works.push_back(kSynchronizes);
        break;
      case Kind::allocate:
      case Kind::release:
      case Kind::tally:
        break;  // In the digest.
      default:
        close();
        steps.push_back(step);
    }
  }
  close();
  while (this->asked.size() < asked.size()) this->asked.push_back(steps.size());
  if (program.num_events > 0) num_events = share_event_places(steps, program.num_events);
}

// --- All of a run ------------------------------------------------------------------------------

namespace {

// Rounded once; exact where nothing changes.
Time times(Time time, double factor) {
  return factor == 1.0 ? time : Time::from_seconds(time.seconds() * factor);
}

}  // namespace

ReplayCodes::ReplayCodes(const Device& device, const RankPrograms& programs,
                         const ReplayCodes* prepared, double hole_factor)
    : device_(device),
      programs_(programs),
      prepared_(prepared),
      hole_factor_(hole_factor),
      rules_(device.stream_rules()) {}

const std::vector<Price>& ReplayCodes::prices(double slowdown) {
  if (prepared_ != nullptr) {
    if (const auto* found = known(prepared_->prices_, slowdown)) return *found;
  }
  if (const auto* found = known(prices_, slowdown)) return *found;
  const ProgramTables& tables = *programs_.programs.front().tables;
  std::vector<Price>& made = prices_[slowdown];
  for (std::uint32_t row = 0; row < tables.num_operations(); ++row) {
    const ComputeOp& op = tables.operation(row);
    made.push_back({device_.price(op, slowdown), device_.issue_price(op)});
  }
  for (std::uint32_t row = 0; row < tables.num_holes(); ++row) {
    const ProgramHole& hole = tables.hole(row);
    made.push_back({times(hole.device, slowdown * hole_factor_), hole.host});
  }
  return made;
}

const ProgramDigest& ReplayCodes::digest(const RankProgram& program) {
  if (prepared_ != nullptr) {
    if (const auto* found = known(prepared_->digests_, &program)) return *found;
  }
  return digests_.try_emplace(&program, program).first->second;
}

const ReplayCode& ReplayCodes::code(const RankProgram& program, double slowdown,
                                    const std::set<std::size_t>& asked) {
  const std::pair<const RankProgram*, double> key(&program, slowdown);
  if (prepared_ != nullptr && asked.empty()) {
    if (const auto* found = known(prepared_->codes_, key)) return *found;
  }
  if (const auto* found = known(codes_, key)) return *found;
  return codes_.try_emplace(key, program, prices(slowdown), rules_, asked).first->second;
}

void ReplayCodes::prepare(double slowdown) {
  for (const RankProgram& program : programs_.programs) {
    static_cast<void>(digest(program));
    static_cast<void>(code(program, slowdown));
  }
}

}  // namespace shardsim

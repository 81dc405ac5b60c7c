#include <string>
#include <utility>

#include "backends/replay/replay_world.hpp"

// Programs that use several streams of their device.
namespace shardsim {

void ReplayWorld::add_device(ReplayGang& gang) {
  const std::uint32_t events =
      gang.code == nullptr ? gang.program.num_events : gang.code->num_events;
  gang.devices.emplace_back(gang.program.num_streams, events, rules_,
                            gang.clock(gang.devices.size()));
}

void ReplayWorld::act_on_streams(ReplayGang& gang, const ProgramStep& step) {
  if (gang.code == nullptr) add_stream_step(gang.hash(0), step);
  if (step.kind == ProgramStep::Kind::use_stream) return use_stream(gang, step.row);
  for (std::size_t member = 0; member < gang.devices.size(); ++member) {
    if (step.kind == ProgramStep::Kind::record_event) {
      gang.devices[member].record(step.row, gang.clock(member));
    } else {
      gang.devices[member].wait(step.row, gang.clock(member));
    }
  }
}

void ReplayWorld::use_stream(ReplayGang& gang, std::uint32_t stream) {
  for (std::size_t member = 0; member < gang.devices.size(); ++member) {
    gang.devices[member].use(stream, gang.clock(member));
  }
  RankTrace* const trace = gang.ranks.front()->trace();
  if (trace != nullptr) trace->use_stream(stream);
}

// All work between two other steps is charged for at once, as it is one stretch in code.
void ReplayWorld::charge_streams(ReplayGang& gang, const ProgramStep& step) {
  using Kind = ProgramStep::Kind;
  switch (step.kind) {
    case Kind::compute:
    case Kind::hole:
    case Kind::synchronize:
    case Kind::allocate:
    case Kind::release:
    case Kind::tally:
      return;
    default:
      break;
  }
  for (std::size_t member = 0; member < gang.devices.size(); ++member) {
    gang.devices[member].charge(gang.clock(member));
  }
}

void ReplayWorld::tell_streams(ReplayGang& gang, const GangStream& stream, const GangWork& work) {
  for (std::size_t member = 0; member < gang.devices.size(); ++member) {
    const ReplayOperation& operation = stream.operation(work, member);
    gang.devices[member].waited(operation.start, operation.end, operation.is_transfer(),
                                gang.clock(member));
  }
}

// Marks are moments of stream 0, whichever is in use.
void ReplayWorld::mark(ReplayGang& gang, const ProgramMark& mark) {
  if (options_.lanes != nullptr) options_.lanes->mark(gang, mark);
  if (!options_.on_mark) return;
  const std::uint32_t in_use = gang.devices.empty() ? 0 : gang.devices.front().in_use();
  if (in_use != 0) use_stream(gang, 0);
  settle_members(gang);
  for (RankState* rank : gang.ranks) options_.on_mark(rank->index(), mark);
  if (in_use != 0) use_stream(gang, in_use);
}

}  // namespace shardsim

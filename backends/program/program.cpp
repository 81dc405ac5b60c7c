#include "backends/program/program.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "sim/kernel/error.hpp"

#include "backends/program/program_tables.hpp"

namespace shardsim {

namespace {

bool same_group(const RankProgram& a, const RankProgram& b, std::size_t group) {
  const ProgramGroup& mine = a.groups[group];
  const ProgramGroup& other = b.groups[group];
  return mine.parent == other.parent && mine.name == other.name &&
         mine.members_for(b.rank) == other.members;
}

// The first group, or else step, that is not the same; the end of both if there is none.
std::pair<std::size_t, std::size_t> first_difference(const RankProgram& a, const RankProgram& b) {
  const std::size_t groups = std::min(a.groups.size(), b.groups.size());
  std::size_t group = 0;
  while (group < groups && same_group(a, b, group)) ++group;
  const auto [mine, _] = std::ranges::mismatch(a.steps, b.steps);
  return {group, static_cast<std::size_t>(mine - a.steps.begin())};
}

std::string describe_messages(const ProgramCall& call) {
  std::string text;
  for (const ProgramMessage& message : call.messages) {
    text += concat(text.empty() ? "" : ", ", message.sends ? "send " : "recv ",
                   std::string(name_of(message.dtype)), " x ", message.count,
                   message.sends ? " to " : " from ", message.peer);
  }
  return text;
}

std::string describe(const ProgramCall& call, const ProgramGroup& group) {
  std::string text = group.name + ": " + call.record.describe();
  if (!call.messages.empty()) text += " (" + describe_messages(call) + ")";
  return text;
}

// " in blocks.0 (backward)".
std::string describe_place(const ProgramTables& tables, const ProgramStep& step) {
  if (step.slot == 0) return {};
  const ProgramPlace& place = tables.place(step.slot - 1);
  std::string text;
  if (*place.module != '\0') text += concat(" in ", place.module);
  if (place.phase != ProgramPlace::Phase::none) text += concat(" (", name_of(place.phase), ")");
  return text;
}

std::string describe(const ProgramMark& mark) {
  static constexpr const char* kNames[] = {"step begins", "pipeline begins", "pipeline ends",
                                           "step is decided", "step ends"};
  return concat(kNames[static_cast<std::size_t>(mark.kind)], " (", mark.step, ")");
}

}  // namespace

const char* name_of(ProgramPlace::Phase phase) {
  static constexpr const char* kNames[] = {"", "forward", "recomputation", "backward", "optimizer"};
  return kNames[static_cast<std::size_t>(phase)];
}

bool same_program(const RankProgram& a, const RankProgram& b) {
  static_assert(std::has_unique_object_representations_v<ProgramStep>);
  if (a.groups.size() != b.groups.size() || a.steps.size() != b.steps.size()) return false;
  for (std::size_t group = 0; group < a.groups.size(); ++group) {
    if (!same_group(a, b, group)) return false;
  }
  return a.steps.empty() ||
         std::memcmp(a.steps.data(), b.steps.data(), a.steps.size() * sizeof(ProgramStep)) == 0;
}

std::string difference_of(const RankProgram& a, const RankProgram& b) {
  if (same_program(a, b)) return {};
  const auto [group, step] = first_difference(a, b);
  const std::string ranks = concat("ranks ", a.rank, " and ", b.rank);
  if (step == a.steps.size() && step == b.steps.size()) {
    const bool both = group < a.groups.size() && group < b.groups.size();
    return both ? ranks + " are in groups of other forms at " + a.groups[group].name
                : ranks + " form other groups";
  }
  const auto at = [step = step](const RankProgram& program) {
    return step < program.steps.size() ? describe(program, program.steps[step])
                                       : std::string("the end");
  };
  return concat("step ", step, " of ", ranks, " is ", at(a), " and ", at(b));
}

std::string describe(const RankProgram& program, const ProgramStep& step) {
  using Kind = ProgramStep::Kind;
  const ProgramTables& tables = *program.tables;
  switch (step.kind) {
    case Kind::compute: {
      const ComputeOp& op = tables.operation(step.row);
      return concat("compute ", op.name, " ", std::string(name_of(op.dtype)), " ", op.flops,
                    " flops ", op.bytes, " bytes", describe_place(tables, step));
    }
    case Kind::hole: {
      const ProgramHole& hole = tables.hole(step.row);
      return concat("hole ", hole.name, " of ", hole.device.picoseconds(), " ps after ",
                    hole.host.picoseconds(), " ps of the host", describe_place(tables, step));
    }
    case Kind::allocate: {
      const ProgramAllocation& allocation = tables.allocation(step.row);
      return concat("allocate #", step.slot, " ", std::string(name_of(allocation.category)), " ",
                    allocation.bytes, " bytes", allocation.on_host ? " on the host" : "");
    }
    case Kind::release:
      return concat("release #", step.slot);
    case Kind::follow:
      return concat("follow work ", step.slot);
    case Kind::post: {
      const ProgramCall& call = tables.call(step.row);
      return concat("post work ", step.slot, " ",
                    describe(call, program.groups[static_cast<std::size_t>(call.group)]));
    }
    case Kind::wait:
      return concat("wait for work ", step.slot);
    case Kind::join:
      return "join " + program.groups[step.row].name;
    case Kind::synchronize:
      return "synchronize";
    case Kind::tally:
      return concat("tally ", tables.tally(step.row).name);
    case Kind::mark:
      return describe(tables.mark(step.row));
    case Kind::use_stream:
      return concat("use stream ", step.row);
    case Kind::record_event:
      return concat("record event ", step.row);
    case Kind::wait_event:
      return concat("wait for event ", step.row);
  }
  return {};
}

}  // namespace shardsim

#include <algorithm>
#include <utility>

#include "backends/replay/replay_world.hpp"
#include "backends/trace_hash.hpp"

// How a replay's ranks form groups.
namespace shardsim {

ReplayGroup& ReplayWorld::add_group(std::uint64_t path, std::uint64_t id, const std::string& name,
                                    std::vector<int> members, Twins twins) {
  const auto running =
      static_cast<int>(std::ranges::count_if(members, [this](int member) { return runs(member); }));
  return groups_.emplace_back(cluster_, path, id, name, std::move(members), std::move(twins),
                              running);
}

namespace {

// How often a program has split the world before it forms group `place`.
std::size_t num_splits_before(const RankProgram& program, std::size_t place) {
  const auto first = program.groups.begin() + 1;
  return static_cast<std::size_t>(
      std::count_if(first, program.groups.begin() + static_cast<std::ptrdiff_t>(place),
                    [](const ProgramGroup& made) { return made.parent == 0; }));
}

}  // namespace

// `members`: in ranks of `parent`. `split`: if that is the world, which of its splits it is.
ReplayGroup& ReplayWorld::add_child(ReplayGroup& parent, std::int64_t sequence,
                                    const ProgramGroup& made, const RankSpan& members,
                                    std::size_t split) {
  std::vector<int> of_parent;
  std::vector<int> ranks;
  for (int i = 0; i < members.size; ++i) {
    of_parent.push_back(members.rank(i));
    ranks.push_back(parent.layout.members.at(static_cast<std::size_t>(of_parent.back())));
  }
  const int color = members.rank(0);
  Twins twins;
  if (options_.fold != nullptr && options_.fold->splits.empty()) {
    // Nobody asks for traffic.
  } else if (options_.fold != nullptr && parent.id == 0) {
    // All splits of the world are the fold's, in their order.
    for (const FoldedSplit::Group& group : options_.fold->splits.at(split).groups) {
      if (group.color == color) twins = group.twins;
    }
  } else {
    twins = parent.twins.part(of_parent);
  }
  return add_group(path_of_child(parent.path, sequence), id_of_child(parent.id, sequence, color),
                   made.name, std::move(ranks), std::move(twins));
}

void ReplayWorld::open_stream(ReplayGang& gang, std::size_t place, std::size_t member,
                              ReplayGroup& group, int member_of_group) {
  GangStream& stream = gang.streams[place];
  if (stream.streams.empty()) stream.streams.resize(gang.size());
  if (std::exchange(group.entered_by, &stream) != &stream) {
    group.part = static_cast<std::uint32_t>(stream.parts.size());
    stream.parts.push_back({.group = &group});
  }
  ++stream.parts[group.part].num_members;
  stream.streams[member] = {.part = group.part, .place = member_of_group, .free = Time()};
  RankTrace* const trace = gang.ranks[member]->trace();
  if (trace == nullptr) return;
  stream.track = static_cast<int>(trace->tracks.size());
  trace->tracks.push_back({.name = group.name});
}

// All members name the split's group alike, so its call is one for all of them.
const ProgramCall& ReplayWorld::split_for(const std::string& name) {
  const auto found = splits_.find(name);
  if (found != splits_.end()) return found->second;
  return splits_.emplace(name, split_call(name)).first->second;
}

// Each rank's choice in a split, as its hash has it.
void ReplayWorld::hash_choices(ReplayGang& gang, const ProgramGroup& made) {
  const auto parent = static_cast<std::size_t>(made.parent);
  const auto child = static_cast<std::size_t>(&made - gang.program.groups.data());
  struct Choice {
    std::uint64_t word = 0;
    int place = -1;  // In the group.
  };
  const auto choice_of = [&made](int rank, int place) {
    const RankSpan members = made.members_for(rank);
    if (members.size == 0) return Choice{choice_word(kNoColor, 0)};
    const int key = members.member_of(place);
    return Choice{choice_word(members.rank(0), key), key};
  };
  for (std::size_t member = 0; member < gang.size(); ++member) {
    RankHash& hash = gang.hash(member);
    const std::uint64_t word =
        choice_of(gang.ranks[member]->index(), gang.streams[parent].streams[member].place).word;
    if (!gang.represented.empty()) {
      for (Represented& other : gang.represented[member]) {
        const Choice own = choice_of(other.rank, other.places[parent]);
        other.hash.add_own(hash, word, own.word);
        other.places[child] = own.place;
      }
    }
    hash.add_own(word);
  }
}

bool ReplayWorld::join(ReplayGang& gang, std::size_t place) {
  const ProgramGroup& made = gang.program.groups[place];
  const auto parent = static_cast<std::size_t>(made.parent);
  GangStream& stream = gang.streams[parent];
  if (!std::exchange(gang.is_splitting, true)) {
    const ProgramCall& call = split_for(made.name);
    if (gang.code == nullptr) {
      hash_call(gang.hash(0), stream.parts.front().group->path, call);
    }
    gang.splits.stream = parent;
    post_collective(gang, call, gang.splits);
    hash_choices(gang, made);
  }
  if (!await(gang, gang.splits)) return false;
  gang.is_splitting = false;
  const std::int64_t sequence = gang.splits.operations.front()->sequence;
  finish_wait(gang, gang.splits);
  if (made.members.size == 0) return true;
  for (std::size_t member = 0; member < gang.size(); ++member) {
    enter(gang, place, member, sequence);
  }
  return true;
}

void ReplayWorld::enter(ReplayGang& gang, std::size_t place, std::size_t member,
                        std::int64_t sequence) {
  const ProgramGroup& made = gang.program.groups[place];
  const GangStream& stream = gang.streams[static_cast<std::size_t>(made.parent)];
  const int rank = gang.ranks[member]->index();
  const RankSpan members = made.members_for(rank);
  const int key = members.member_of(stream.streams[member].place);
  const int color = members.rank(0);
  ReplayGroup& parent = stream.group_of(member);
  ReplayGroup*& child = parent.children[{sequence, color}];
  if (child == nullptr) {
    child = &add_child(parent, sequence, made, members, num_splits_before(gang.program, place));
  }
  const bool is_member = key >= 0 && key < child->size() &&
                         child->layout.members[static_cast<std::size_t>(key)] == rank;
  if (child->size() != members.size || !is_member) {
    throw ReplayEnded{"the members of group " + child->name + " are not those of its class"};
  }
  ++child->num_joined;
  open_stream(gang, place, member, *child, key);
}

}  // namespace shardsim

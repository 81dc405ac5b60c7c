#include "sim/programs/trace_groups.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "scenarios/source_text.hpp"

#include "sim/programs/trace_link.hpp"

namespace shardsim {

namespace {

// The ranks at even distances at the beginning of a list.
std::size_t run_length(const std::vector<int>& list, int stride) {
  std::size_t length = 1;
  while (length < list.size() && list[length] - list[length - 1] == stride) ++length;
  return length;
}

// Takes axes from a list, the fastest first, until one rank is left.
std::optional<RankSpan> ascending_span_of(std::vector<int> list) {
  RankSpan span;
  span.size = static_cast<int>(list.size());
  span.base = list.front();
  for (RankSpan::Axis& axis : span.axes) {
    if (list.size() == 1) break;
    const int stride = list[1] - list[0];
    const std::size_t length = run_length(list, stride);
    if (stride <= 0 || list.size() % length != 0) return std::nullopt;
    axis = {.size = static_cast<int>(length), .stride = stride};
    std::vector<int> firsts;
    for (std::size_t i = 0; i < list.size(); i += length) firsts.push_back(list[i]);
    list = std::move(firsts);
  }
  if (list.size() > 1) return std::nullopt;
  return span;
}

// As RankSpan::member_of requires it.
bool is_nested(const RankSpan& span) {
  std::array<RankSpan::Axis, 4> axes = span.axes;
  std::ranges::sort(axes, {}, &RankSpan::Axis::stride);
  int held = 1;
  for (const RankSpan::Axis& axis : axes) {
    if (axis.size == 1) continue;
    if (axis.stride < held) return false;
    held = axis.stride * axis.size;
  }
  return true;
}

bool has_members(const RankSpan& span, const std::vector<int>& members) {
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (span.rank(static_cast<int>(i)) != members[i]) return false;
  }
  return true;
}

UsageError bad_groups(const std::string& message) {
  return {"E1381", message, "correct the list of groups that belongs to the traces"};
}

constexpr std::size_t kMostGroupName = 60;

std::string shown(const std::string& group) {
  return "group \"" + printable(group, kMostGroupName) + "\"";
}

}  // namespace

std::optional<RankSpan> span_of(const std::vector<int>& members) {
  if (members.empty()) return std::nullopt;
  std::optional<RankSpan> span = ascending_span_of(members);
  if (!span) {
    span = ascending_span_of({members.rbegin(), members.rend()});
    if (span) span = span->part(span->size - 1, -1, span->size);
  }
  if (!span || !is_nested(*span) || !has_members(*span, members)) return std::nullopt;
  return span;
}

bool lies_as_its_kind(const RankSpan& span) {
  if (span.step < 0) return false;
  const RankSpan first = span.around(0);
  if (first.base < 0) return false;
  for (int member = 0; member < span.size; ++member) {
    if (!(first.around(span.rank(member)) == span)) return false;
  }
  return true;
}

TraceGroups::TraceGroups(const std::map<std::string, std::vector<int>>& groups, int num_ranks)
    : num_ranks_(num_ranks) {
  std::vector<int> everyone(static_cast<std::size_t>(num_ranks));
  for (int rank = 0; rank < num_ranks; ++rank) everyone[static_cast<std::size_t>(rank)] = rank;
  groups_[kWholeWorld] = {kWholeWorld, everyone, RankSpan::line(num_ranks)};
  // Names that count up are in the order in which ranks formed the groups: 99 comes before 100, so
  // that twins of one kind come to the same two splits at all ranks.
  std::vector<std::string> names;
  for (const auto& [name, _] : groups) names.push_back(name);
  std::ranges::stable_sort(names, {}, &std::string::size);
  for (const std::string& name : names) {
    const std::vector<int>& members = groups.at(name);
    if (members.empty()) continue;
    if (std::ranges::any_of(members, [&](int rank) { return rank < 0 || rank >= num_ranks; })) {
      throw bad_groups(
          fmt::format("{} has ranks that are not 0 to {}", shown(name), num_ranks - 1));
    }
    const std::optional<RankSpan> span = span_of(members);
    if (!span) {
      throw bad_groups(fmt::format("the ranks of {} do not lie on a regular grid", shown(name)));
    }
    Group& group = groups_[name] = {name, members, *span};
    group.is_told = lies_as_its_kind(group.span);
    add(group);
  }
  form_all_first();
  for (Split& split : splits_) split.name = name_of(split);
}

// All members of a parent join its groups by one name.
std::string TraceGroups::name_of(const Split& split) {
  const Group* first = nullptr;
  std::set<std::string_view> names;
  for (const Group* const group : split.groups) {
    if (group == nullptr) continue;
    if (first == nullptr) first = group;
    names.insert(group->name);
  }
  const std::string name = printable(first->name, kMostGroupName);
  return names.size() == 1 ? name : fmt::format("{} and {} like it", name, names.size() - 1);
}

// Splits of one kind of groups have one form, so that equal ranks have equal programs.
void TraceGroups::add(Group& group) {
  const auto has_room = [&](const Split& split) {
    const auto some =
        std::ranges::find_if(split.groups, [](auto* each) { return each != nullptr; });
    return (*some)->members.size() == group.members.size() && (*some)->is_told == group.is_told &&
           (*some)->span.axes == group.span.axes &&
           std::ranges::all_of(group.members, [&](int rank) {
             return split.groups[static_cast<std::size_t>(rank)] == nullptr;
           });
  };
  auto split = std::ranges::find_if(splits_, has_room);
  if (split == splits_.end()) {
    split = splits_.insert(split, empty_split());
  }
  group.number = 1 + static_cast<int>(split - splits_.begin());
  for (std::size_t place = 0; place < group.members.size(); ++place) {
    const auto rank = static_cast<std::size_t>(group.members[place]);
    split->groups[rank] = &group;
    split->places[rank] = static_cast<int>(place);
  }
}

TraceGroups::Split TraceGroups::empty_split() const {
  const auto ranks = static_cast<std::size_t>(num_ranks_);
  return {.name = {},
          .groups = std::vector<const Group*>(ranks, nullptr),
          .places = std::vector<int>(ranks, -1)};
}

// Groups of the world are told by their form. All others are cut out of a group that has all ranks,
// too, and which lies in one way only.
void TraceGroups::form_all_first() {
  bool has_others = false;
  for (const auto& [_, group] : groups_) has_others |= group.number > 0 && !group.is_told;
  if (!has_others) return;
  for (auto& [_, group] : groups_) {
    if (group.number > 0) ++group.number;
  }
  for (Split& split : splits_) {
    const auto some =
        std::ranges::find_if(split.groups, [](auto* each) { return each != nullptr; });
    split.parent = (*some)->is_told ? 0 : 1;
  }
  const Group* const world = &groups_.at(kWholeWorld);
  splits_.insert(splits_.begin(),
                 {.name = {},
                  .groups = std::vector<const Group*>(static_cast<std::size_t>(num_ranks_), world),
                  .places = world->members});
}

RankSpan TraceGroups::joined(std::size_t split, int rank) const {
  const Group* const group = splits_[split].groups[static_cast<std::size_t>(rank)];
  if (group == nullptr) return RankSpan::none();
  return splits_[split].parent == 0 ? group->span.around(0) : group->span;
}

ProgramGroup TraceGroups::group_in(std::size_t split, int rank) const {
  return {.parent = parent_of(split), .name = splits_[split].name, .members = joined(split, rank)};
}

int TraceGroups::number_of(const std::string& group, int rank, const std::string& place) const {
  const auto found = groups_.find(group);
  if (found == groups_.end()) {
    throw bad_groups(fmt::format("{}: {} is not in the list of groups", place, shown(group)));
  }
  const std::vector<int>& members = found->second.members;
  if (std::ranges::find(members, rank) == members.end()) {
    throw bad_groups(fmt::format("{}: rank {} communicates in {} without being a member", place,
                                 rank, shown(group)));
  }
  return found->second.number;
}

std::string TraceGroups::counterpart(const std::string& group, int rank) const {
  const int number = groups_.at(group).number;
  if (number == 0) return group;
  const Group* const own =
      splits_[static_cast<std::size_t>(number) - 1].groups[static_cast<std::size_t>(rank)];
  return own == nullptr ? std::string() : own->name;
}

int TraceGroups::place_in(int number, int rank) const {
  if (number == 0) return rank;
  return splits_[static_cast<std::size_t>(number) - 1].places[static_cast<std::size_t>(rank)];
}

std::size_t TraceGroups::most_alike(int rank, const std::vector<int>& others) const {
  const auto num_equal_places = [&](int other) {
    return std::ranges::count_if(splits_, [&](const Split& split) {
      return split.places[static_cast<std::size_t>(rank)] ==
             split.places[static_cast<std::size_t>(other)];
    });
  };
  return static_cast<std::size_t>(std::ranges::max_element(others, {}, num_equal_places) -
                                  others.begin());
}

const std::vector<int>& TraceGroups::members_of(const std::string& group) const {
  return groups_.at(group).members;
}

}  // namespace shardsim

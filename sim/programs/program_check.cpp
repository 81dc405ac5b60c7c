#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "backends/program/program_tables.hpp"

#include "sim/programs/program_set.hpp"

// A replay trusts its programs as if a recorder had written them. Files are written by others, so
// all that the replay relies on is looked at here, once.
namespace shardsim {

namespace {

constexpr double kMostTraffic = 4e18;  // Bytes of all ranks together: 64 bits hold their sums.

class ProgramChecker {
 public:
  ProgramChecker(const RankProgram& program, std::vector<int> ranks, int num_ranks,
                 const std::string& path, std::size_t added)
      : program_(program),
        tables_(*program.tables),
        ranks_(std::move(ranks)),
        num_ranks_(num_ranks),
        path_(path),
        added_(added) {}

  // Bytes that one rank moves at most, as a float: the sum may be large.
  double check() {
    check_groups();
    joined_.assign(program_.groups.size(), false);
    joined_.front() = true;
    for (; at_ < program_.steps.size(); ++at_) check(program_.steps[at_]);
    if (follows_) refuse("a follow has no post behind it", "put f before a p");
    if (!works_.empty()) {
      refuse(fmt::format("work {} is never waited for", *works_.begin()), "add a w for each p");
    }
    check_streams();
    return traffic_;
  }

 private:
  using Kind = ProgramStep::Kind;

  [[noreturn]] void refuse(const std::string& cause, const std::string& fix) const {
    const bool in_steps = !joined_.empty() && at_ < program_.steps.size();
    const std::string at = in_steps ? fmt::format(", step {}", at_ - added_) : std::string();
    throw bad_program(fmt::format("{}: program of rank {}{}", path_, program_.rank, at), cause,
                      fix);
  }
  void require(bool good, const std::string& cause, const std::string& fix) const {
    if (!good) refuse(cause, fix);
  }

  // --- Groups ----------------------------------------------------------------------------------

  [[nodiscard]] int size_of_group(int group) const {
    return program_.groups[static_cast<std::size_t>(group)].members.size;
  }

  void check_groups() {
    require(std::ranges::find(ranks_, program_.rank) != ranks_.end(),
            "\"rank\" is none of \"ranks\"", "name the rank that was recorded");
    peers_.resize(program_.groups.size());
    for (std::size_t group = 1; group < program_.groups.size(); ++group) {
      const ProgramGroup& made = program_.groups[group];
      require(made.parent >= 0 && made.parent < static_cast<int>(group),
              fmt::format("group {} has parent {}", group, made.parent),
              "a parent comes before its groups; the world is 0");
      if (made.members.size == 0) continue;
      check_form(group, made.members);
      for (const int rank : ranks_) check_members(group, rank);
    }
  }

  // As RankSpan::member_of and RankSpan::around require it.
  void check_form(std::size_t group, const RankSpan& span) const {
    std::array<RankSpan::Axis, 4> axes = span.axes;
    std::ranges::sort(axes, {}, &RankSpan::Axis::stride);
    std::int64_t places = 1;
    std::int64_t held = 1;  // Ranks from the first to the last of the axes so far.
    for (const RankSpan::Axis& axis : axes) {
      if (axis.size == 1) continue;
      require(axis.stride >= held, fmt::format("axes of group {} overlap", group),
              "a longer stride is at least a shorter one times its size");
      held = std::int64_t{axis.stride} * axis.size;
      places *= axis.size;
      require(held <= 2LL * num_ranks_, fmt::format("group {} is larger than its parent", group),
              "make its axes shorter");
    }
    const std::int64_t last = span.first + (span.size - std::int64_t{1}) * span.step;
    require(span.step != 0 && span.first < places && last >= 0 && last < places,
            fmt::format("group {} has places for {} members", group, places),
            "first and first + (size - 1) * step must lie on the axes, and step is not 0");
  }

  // The group as it is where `rank` has the program.
  void check_members(std::size_t group, int rank) const {
    const ProgramGroup& made = program_.groups[group];
    const RankSpan members = made.members_for(rank);
    const int own = place_of(made.parent, rank);
    const std::int64_t most = size_of_group(made.parent);
    std::int64_t highest = members.base;
    for (const RankSpan::Axis& axis : members.axes) {
      highest += (axis.size - std::int64_t{1}) * axis.stride;
    }
    require(members.base >= 0 && highest < most,
            fmt::format("group {} leaves its parent of {} ranks where rank {} has the program",
                        group, most, rank),
            "give that rank a program of its own, or correct the group");
    require(own >= 0 && members.member_of(own) >= 0,
            fmt::format("rank {} is no member of its group {}", rank, group),
            "give that rank a program of its own, or size 0 where it joins none");
  }

  // The rank's place in a group; -1: none.
  [[nodiscard]] int place_of(int group, int rank) const {
    if (group == 0) return rank;
    const ProgramGroup& made = program_.groups[static_cast<std::size_t>(group)];
    const int parent = place_of(made.parent, rank);
    if (parent < 0 || made.members.size == 0) return -1;
    return made.members_for(rank).member_of(parent);
  }

  // --- Steps -----------------------------------------------------------------------------------

  void check(const ProgramStep& step) {
    require(!follows_ || step.kind == Kind::post, "a follow has no post behind it",
            "put f right before its p");
    switch (step.kind) {
      case Kind::allocate:
        check_slot(allocations_.insert(step.slot).second, step.slot, "allocation", "released");
        break;
      case Kind::release:
        require(allocations_.erase(step.slot) > 0,
                fmt::format("allocation {} is not there", step.slot), "allocate it before");
        break;
      case Kind::follow:
        require(works_.contains(step.slot), fmt::format("work {} is not there", step.slot),
                "post it before");
        follows_ = true;
        break;
      case Kind::post:
        check_slot(works_.insert(step.slot).second, step.slot, "work", "waited for");
        check_call(tables_.call(step.row));
        follows_ = false;
        break;
      case Kind::wait:
        require(works_.erase(step.slot) > 0, fmt::format("work {} is not there", step.slot),
                "post it before");
        break;
      case Kind::join:
        check_join(step.row);
        break;
      case Kind::use_stream:
        check_number(step.row, "stream");
        streams_.insert(stream_ = step.row);
        break;
      case Kind::record_event:
        check_number(step.row, "event");
        events_.insert(step.row);
        break;
      case Kind::wait_event:
        require(events_.contains(step.row), fmt::format("event {} is not recorded", step.row),
                "put its e before the b");
        break;
      default:
        break;
    }
  }

  // Slots are low numbers: a replay has a place for each.
  void check_slot(bool is_free, std::uint32_t slot, const char* what, const char* ended) const {
    require(is_free, fmt::format("{} {} is not {} yet", what, slot, ended), "take a free slot");
    require(slot <= at_, fmt::format("{} {} is a high number", what, slot),
            "take the lowest free slot");
  }

  // A replay has a place for each, and no step is there for more of them.
  void check_number(std::uint32_t number, const char* what) const {
    require(number <= program_.steps.size(), fmt::format("{} {} is a high number", what, number),
            fmt::format("number each {} from 0 on", what));
  }

  void check_streams() const {
    require(stream_ == 0, fmt::format("the program ends on stream {}", stream_),
            "end with u0, after what stream 0 still has to wait for");
    for (std::uint32_t stream = 0; stream < program_.num_streams; ++stream) {
      require(streams_.contains(stream), fmt::format("no step goes to stream {}", stream),
              "number the streams that are used from 0 on");
    }
  }

  void check_join(std::uint32_t group) {
    require(group == next_group_, fmt::format("group {} is joined before {}", group, next_group_),
            "join groups in their order, each once");
    ++next_group_;
    const ProgramGroup& made = program_.groups[group];
    require(joined_[static_cast<std::size_t>(made.parent)],
            fmt::format("the parent of group {} is not joined", group), "join it before");
    joined_[group] = made.members.size > 0;
  }

  // --- Calls -----------------------------------------------------------------------------------

  void check_call(const ProgramCall& call) {
    const auto group = static_cast<std::size_t>(call.group);
    require(group < program_.groups.size() && joined_[group],
            fmt::format("group {} is not joined", call.group), "join it before");
    const int size = size_of_group(call.group);
    const CallRecord& record = call.record;
    add_traffic(record.count, record.dtype, size);
    if (call.kind != CallKind::collective) return check_messages(call);
    const CollectiveRow& row = row_of(call.collective);
    const bool has_root = row.root != RootRole::none;
    require(has_root ? record.root >= 0 && record.root < size : record.root == -1,
            fmt::format("root {} of {} members", record.root, size),
            "name a member as the root, where the collective has one");
    require(call.messages.empty(), "a collective has messages", "remove them");
    check_chunks(call, row, size);
    const bool is_pairs = row.path == CollectivePath::pairs;
    check_counts(call.send_counts, is_pairs ? size : 0, "send_counts");
    check_counts(call.recv_counts, is_pairs ? size : 0, "recv_counts");
    if (!is_pairs) return;
    for (const std::int64_t count : call.send_counts) add_traffic(count, record.dtype, 1);
    for (const std::int64_t count : call.recv_counts) add_traffic(count, record.dtype, 1);
  }

  void check_counts(const std::vector<std::int64_t>& counts, int size, const char* key) const {
    require(std::ssize(counts) == size,
            fmt::format("\"{}\" has {} numbers for {} members", key, counts.size(), size),
            "write one for each member, or leave it out where the collective has none");
  }

  void check_chunks(const ProgramCall& call, const CollectiveRow& row, int size) const {
    const CallRecord& record = call.record;
    if (!call.counts.empty()) {
      require(row.in_chunks(), "the collective has no chunks", "leave \"counts\" out");
      check_counts(call.counts, size, "counts");
      double sum = 0.0;  // Far below 2^53 wherever it equals the count.
      for (const std::int64_t count : call.counts) sum += static_cast<double>(count);
      require(sum == static_cast<double>(record.count), "\"counts\" do not add up to \"count\"",
              "count is the full buffer");
    } else if (row.in_chunks()) {
      require(record.count % size == 0,
              fmt::format("{} elements have no {} equal chunks", record.count, size),
              "give \"counts\"");
    }
    require(record.padding <= record.count && (record.padding == 0 || call.counts.empty()),
            "\"padding\" does not fit", "it is part of the full buffer, and excludes \"counts\"");
    std::int64_t padding = 0;
    std::int64_t end = 0;
    for (const ElementRange& range : call.padding_at) {
      require(range.begin >= end && range.end >= range.begin && range.end <= record.count,
              "\"padding_at\" does not fit", "write ascending ranges of the full buffer");
      end = range.end;
      padding += range.end - range.begin;
    }
    require(call.padding_at.empty() || padding == record.padding,
            "\"padding_at\" holds another number of elements than \"padding\"", "make them equal");
  }

  void check_messages(const ProgramCall& call) {
    const int size = size_of_group(call.group);
    require(call.kind == CallKind::batch || call.messages.size() == 1,
            "a send or receive is one message", "write one, or a batch");
    for (const ProgramMessage& message : call.messages) {
      add_traffic(message.count, message.dtype, 1);
      const bool is_new = peers_[static_cast<std::size_t>(call.group)].insert(message.peer).second;
      if (!is_new) continue;
      require(message.peer >= 0 && message.peer < size,
              fmt::format("peer {} of {} members", message.peer, size), "name a member");
      for (const int rank : ranks_) {
        require(place_of(call.group, rank) != message.peer,
                fmt::format("rank {} is its own peer", rank), "name another member");
      }
    }
    if (call.kind == CallKind::batch) return;
    require((call.kind == CallKind::send) == call.messages.front().sends,
            "the message goes the other way", "a send has \"to\", a recv has \"from\"");
  }

  // At most what a member moves: all of it, out and in, once for each other member.
  void add_traffic(std::int64_t count, DType dtype, int times) {
    traffic_ += 4.0 * static_cast<double>(count) * static_cast<double>(size_of(dtype)) * times;
    require(traffic_ < kMostTraffic, "the bytes of all calls are too many", "shorten the program");
  }

  const RankProgram& program_;
  const ProgramTables& tables_;
  std::vector<int> ranks_;
  int num_ranks_;
  const std::string& path_;
  std::size_t added_;
  std::size_t at_ = 0;
  std::size_t next_group_ = 1;
  bool follows_ = false;
  double traffic_ = 0.0;
  std::vector<bool> joined_;          // By group; empty until the steps are looked at.
  std::vector<std::set<int>> peers_;  // By group, those that were looked at.
  std::set<std::uint32_t> works_;
  std::set<std::uint32_t> allocations_;
  std::uint32_t stream_ = 0;               // In use.
  std::set<std::uint32_t> streams_ = {0};  // Those that were used.
  std::set<std::uint32_t> events_;         // Those that were recorded.
};

}  // namespace

void check_programs(const RankPrograms& programs, const std::string& path, std::size_t added) {
  std::vector<std::vector<int>> ranks(programs.programs.size());
  for (std::size_t rank = 0; rank < programs.of_rank.size(); ++rank) {
    ranks.at(static_cast<std::size_t>(programs.of_rank[rank])).push_back(static_cast<int>(rank));
  }
  const auto num_ranks = static_cast<int>(programs.of_rank.size());
  double traffic = 0.0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const auto users = static_cast<double>(ranks[i].size());
    ProgramChecker checker(programs.programs[i], std::move(ranks[i]), num_ranks, path, added);
    traffic += users * checker.check();
  }
  if (traffic < kMostTraffic) return;
  throw bad_program(path, "the bytes of all calls are too many", "shorten the programs");
}

}  // namespace shardsim

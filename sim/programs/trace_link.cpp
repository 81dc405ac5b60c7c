#include "sim/programs/trace_link.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "sim/programs/trace_rows.hpp"

namespace shardsim {

namespace {

using Kind = TraceNode::Kind;

bool is_message(Kind kind) { return kind == Kind::send || kind == Kind::recv; }
bool is_communication(Kind kind) { return kind == Kind::collective || is_message(kind); }

// --- Ranks -------------------------------------------------------------------------------------

struct LinkNotes {
  std::int64_t stricter = 0;  // Communications that begin later than their dependencies say.
};

// Writes the steps of one rank.
class RankLinker {
 public:
  RankLinker(const TraceRank& trace, int rank, const TraceGroups& groups,
             const TraceCollectives& collectives, TraceProgramText& text, LinkNotes& notes)
      : trace_(trace),
        rank_(rank),
        groups_(groups),
        collectives_(collectives),
        text_(text),
        notes_(notes),
        state_(trace.nodes.size()) {}

  void link() {
    ProgramJson groups = ProgramJson::array();
    for (std::size_t split = 0; split < groups_.num_splits(); ++split) {
      groups.push_back(program_json_of(groups_.group_in(split, rank_)));
      step(fmt::format("j{}", split + 1));
    }
    for (at_ = 0; at_ < trace_.nodes.size(); ++at_) add(trace_.nodes[at_]);
    for (std::size_t node = 0; node < state_.size(); ++node) await(node);
    text_.program(rank_, groups, std::move(steps_));
  }

 private:
  // The state that a node is in.
  struct State {
    int work = -1;                 // That of communication, until it is waited for.
    std::size_t posted_after = 0;  // Device nodes before it.
    std::size_t device = 0;        // The number of a device's node, from 1 on.
  };

  void step(const std::string& word) { steps_ += (steps_.empty() ? "" : " ") + word; }

  void await(std::size_t node) {
    if (state_[node].work < 0) return;
    step(fmt::format("w{}", state_[node].work));
    free_.insert(state_[node].work);
    // The parts of a batch, which follow it, have one work.
    for (std::size_t part = node + 1; part < state_.size() && is_part(part); ++part) {
      state_[part].work = -1;
    }
    for (std::size_t part = node; is_part(part); --part) state_[part - 1].work = -1;
    state_[node].work = -1;
  }

  // Whether a node is posted with the one before it.
  [[nodiscard]] bool is_part(std::size_t node) const {
    if (node == 0 || !is_message(trace_.nodes[node - 1].kind)) return false;
    return trace_.in_program_order ? trace_.nodes[node].part_of_batch > 0 : batched_.contains(node);
  }

  // --- Waiting -----------------------------------------------------------------------------------

  [[nodiscard]] bool is_open(std::size_t node) const { return state_[node].work >= 0; }

  // As the program did.
  void wait_in_order(const TraceNode& node) {
    std::size_t waited = 0;
    const auto host_waits = [&] {
      if (std::ranges::find(node.host_waits, waited) != node.host_waits.end()) step("s");
    };
    const std::size_t count = node.after.size() - (node.follows && !node.after.empty() ? 1 : 0);
    host_waits();
    for (std::size_t i = 0; i < count; ++i) {
      if (!is_open(node.after[i])) continue;
      await(node.after[i]);
      ++waited;
      host_waits();
    }
  }

  void wait_all(const TraceNode& node) {
    for (const std::size_t before : node.after) await(before);
  }

  // The slot of the work that a communication comes behind; -1: it comes behind the device.
  int order_communication(const TraceNode& node) {
    if (trace_.in_program_order) {
      wait_in_order(node);
      return node.follows && !node.after.empty() ? state_[node.after.back()].work : -1;
    }
    std::vector<std::size_t> open;
    std::size_t device = 0;  // The last node of the device that it depends on.
    for (const std::size_t before : node.after) {
      device = std::max(device, state_[before].device);
      const bool own_stream = trace_.nodes[before].group == node.group;
      if (is_open(before) && !own_stream) open.push_back(before);
    }
    if (open.size() == 1 && device <= state_[open.front()].posted_after) {
      return state_[open.front()].work;
    }
    // It could begin beside what the device has to do.
    const bool begins_later = device < num_device_;
    if (!open.empty() || begins_later) ++notes_.stricter;
    wait_all(node);
    return -1;
  }

  // --- Nodes -------------------------------------------------------------------------------------

  void add(const TraceNode& node) {
    if (is_communication(node.kind)) return add_communication(node);
    if (trace_.in_program_order) {
      wait_in_order(node);
    } else if (node.kind == Kind::host) {
      await_host(node);
    } else {
      wait_all(node);
    }
    switch (node.kind) {
      case Kind::device:
        state_[at_].device = ++num_device_;
        if (!node.row.empty()) {
          return step(
              fmt::format("c{}", text_.row("operation", trace_row_of(node.row, trace_.place))));
        }
        return add_hole(node);
      case Kind::host:
        return add_hole(node);
      case Kind::mark:
        return step(fmt::format("m{}", text_.row("mark", trace_row_of(node.row, trace_.place))));
      default:
        return;
    }
  }

  void await_host(const TraceNode& node) {
    const bool waits = std::ranges::any_of(node.after, [&](std::size_t before) {
      return is_open(before) || state_[before].device > synchronized_;
    });
    wait_all(node);
    if (waits) {
      step("s");
      synchronized_ = num_device_;
    }
  }

  void add_hole(const TraceNode& node) {
    step(fmt::format("h{}", text_.row("hole", {{"name", node.name},
                                               {"device_ps", node.device_ps},
                                               {"host_ps", node.host_ps}})));
  }

  void add_communication(const TraceNode& node) {
    if (is_part(at_)) {
      state_[at_] = state_[at_ - 1];
      return;
    }
    ProgramJson row = is_message(node.kind) ? messages_row(node) : collective_row(node);
    ProgramJson call = {{"group", groups_.number_of(node.group, rank_, trace_.place)}};
    call.update(row);
    const int behind = order_communication(node);
    if (behind >= 0) step(fmt::format("f{}", behind));
    int work = num_works_;
    if (free_.empty()) {
      ++num_works_;
    } else {
      work = *free_.begin();
      free_.erase(free_.begin());
    }
    state_[at_].work = work;
    state_[at_].posted_after = num_device_;
    step(fmt::format("p{}:{}", text_.row("call", call), work));
  }

  ProgramJson collective_row(const TraceNode& node) {
    const std::size_t number = num_collectives_[node.group]++;
    if (!node.row.empty()) return trace_row_of(node.row, trace_.place);
    return collectives_.row_of(node, rank_, number);
  }

  [[nodiscard]] ProgramJson message_of(const TraceNode& node) const {
    const std::vector<int>& members = groups_.members_of(node.group);
    const auto peer = std::ranges::find(members, node.peer);
    if (peer == members.end()) {
      throw bad_program(trace_.place,
                        fmt::format("rank {} is no member of group \"{}\"", node.peer, node.group),
                        "correct the peer, or the list of groups");
    }
    return {{node.kind == Kind::send ? "to" : "from", peer - members.begin()},
            {"dtype", name_of(DType::int8)},
            {"count", node.bytes}};
  }

  // One message, or all that depend on the same and on none of each other.
  ProgramJson messages_row(const TraceNode& node) {
    if (!node.row.empty()) return trace_row_of(node.row, trace_.place);
    ProgramJson messages = ProgramJson::array({message_of(node)});
    for (std::size_t next = at_ + 1; next < trace_.nodes.size(); ++next) {
      const TraceNode& other = trace_.nodes[next];
      if (!is_message(other.kind) || other.group != node.group || other.after != node.after) break;
      messages.push_back(message_of(other));
      batched_.insert(next);
    }
    if (messages.size() > 1) {
      return {
          {"kind", "batch"}, {"dtype", name_of(DType::int8)}, {"count", 0}, {"messages", messages}};
    }
    return {{"kind", node.kind == Kind::send ? "send" : "recv"},
            {"dtype", name_of(DType::int8)},
            {"count", node.bytes},
            {"root", messages[0].front()},
            {"messages", messages}};
  }

  const TraceRank& trace_;
  int rank_;
  const TraceGroups& groups_;
  const TraceCollectives& collectives_;
  TraceProgramText& text_;
  LinkNotes& notes_;
  std::vector<State> state_;  // By node.
  std::string steps_;
  std::size_t at_ = 0;
  std::size_t num_device_ = 0;
  std::size_t synchronized_ = 0;  // The host has waited for so many nodes of the device.
  int num_works_ = 0;
  std::set<int> free_;             // Works that were waited for.
  std::set<std::size_t> batched_;  // Messages that belong to the batch before them.
  std::map<std::string, std::size_t> num_collectives_;
};

}  // namespace

ProgramSet link_traces(const TraceSet& traces) {
  const auto num_ranks = static_cast<int>(traces.ranks.size());
  const TraceGroups groups(traces.groups, num_ranks);
  for (int rank = 0; rank < num_ranks; ++rank) {
    const TraceRank& trace = traces.ranks[static_cast<std::size_t>(rank)];
    for (const TraceNode& node : trace.nodes) {
      if (is_communication(node.kind)) {
        [[maybe_unused]] const int number = groups.number_of(node.group, rank, trace.place);
      }
    }
  }
  const TraceCollectives collectives(traces, groups);
  TraceProgramText text;
  LinkNotes notes;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const TraceRank& trace = traces.ranks[static_cast<std::size_t>(rank)];
    RankLinker(trace, rank, groups, collectives, text, notes).link();
  }
  ProgramJson header = {{"shardsim_program", kProgramVersion},
                        {"name", traces.name},
                        {"ranks", num_ranks},
                        {"notes", traces.notes}};
  if (!traces.settings.empty()) header.update(trace_row_of(traces.settings, traces.name));
  if (notes.stricter > 0) {
    header["notes"].push_back(fmt::format(
        "{} communications begin when the device has done what stands before them, though the "
        "trace lets them begin before",
        notes.stricter));
  }
  return read_program_file(text.file(header), traces.name + " (as programs)");
}

}  // namespace shardsim

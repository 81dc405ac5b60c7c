#include "sim/programs/chakra_reader.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/text.hpp"
#include "sim/kernel/time.hpp"

#include "scenarios/source_text.hpp"

#include "sim/programs/chakra_messages.hpp"
#include "sim/programs/chakra_words.hpp"
#include "sim/programs/program_rows.hpp"

namespace shardsim {

namespace {

using Kind = TraceNode::Kind;
using chakra::NodeType;

constexpr std::int64_t kPicosecondsPerMicrosecond = 1'000'000;

// --- Groups ------------------------------------------------------------------------------------

void add_groups(const ProgramJson& json, const std::string& place, TraceSet& traces) {
  const auto bad = [&] {
    return UsageError("E1381", place + ": the groups are no lists of ranks",
                      "write {\"0\": [0, 1, ...], ...}");
  };
  if (!json.is_object()) throw bad();
  for (const auto& [name, members] : json.items()) {
    if (!members.is_array()) throw bad();
    std::vector<int>& group = traces.groups[name];
    group.clear();
    for (const ProgramJson& member : members) {
      if (!member.is_number_integer() || member < 0 || member >= kMostProgramRanks) throw bad();
      group.push_back(member.get<int>());
    }
  }
}

// PyTorch's process groups are the input of a node: "['[{\"pg_name\": \"0\", \"ranks\": []}, ...".
void add_process_groups(const ChakraReadNode& node, int num_ranks, TraceSet& traces) {
  if (node.inputs.find("pg_name") == std::string::npos || node.inputs.size() < 4) return;
  const ProgramJson list = ProgramJson::parse(node.inputs.substr(2, node.inputs.size() - 4),
                                              nullptr, /*allow_exceptions=*/false);
  if (!list.is_array()) return;
  for (const ProgramJson& each : list) {
    if (!each.is_object() || !each.contains("pg_name") || !each.contains("ranks")) continue;
    const ProgramJson& name = each["pg_name"];
    ProgramJson ranks = each["ranks"];
    if (!name.is_string() || !ranks.is_array()) continue;
    for (int rank = 0; ranks.empty() && rank < num_ranks; ++rank) ranks.push_back(rank);
    add_groups({{name.get<std::string>(), ranks}}, node.name, traces);
  }
}

// --- Nodes -------------------------------------------------------------------------------------

// Sums over the nodes of all ranks.
struct ReadTotals {
  double recorded_s = 0.0;  // All nodes,
  double covered_s = 0.0;   // and those that a program has.
  std::int64_t exact = 0;
  std::int64_t rounded = 0;            // Durations in whole microseconds.
  std::int64_t without_time = 0;       // Nodes of the device that are neither priced nor timed.
  std::int64_t uncounted = 0;          // Messages and collectives without a size.
  std::int64_t with_later_groups = 0;  // Ranks.
  std::int64_t without_control = 0;    // Ranks.
};

class ChakraRankReader {
 public:
  ChakraRankReader(const ChakraFile& file, const TraceFile& from, TraceSet& traces,
                   ReadTotals& totals)
      : file_(file), traces_(traces), totals_(totals), rank_(from.rank) {
    trace_.rank = from.rank;
    trace_.place = printable(from.path, 200);
    trace_.in_program_order = file.metadata.contains(chakra::attribute_name::kOrder);
    const auto note = file.metadata.find(chakra::attribute_name::kComputeNodes);
    counts_operations_ = note == file.metadata.end() || note->second.text != chakra::kComputeNote;
  }

  TraceRank read() {
    if (!order_nodes()) {
      // In PyTorch's traces they say who called whom, and Chakra's own feeder passes over them.
      control_orders_ = false;
      ++totals_.without_control;
      if (!order_nodes()) throw bad_chakra(trace_.place, "nodes depend on each other in a circle");
    }
    for (const std::size_t at : order_) {
      const ChakraReadNode& node = file_.nodes[at];
      TraceNode made = node_of(node);
      made.name = node.name;
      made.after = dependencies_of(node);
      if (made.kind == Kind::none) {
        passed_[node.id] = made.after;
        continue;
      }
      place_[node.id] = trace_.nodes.size();
      trace_.nodes.push_back(std::move(made));
    }
    return std::move(trace_);
  }

 private:
  // Nodes whose dependencies are done, the earliest first; equal ones as they stand in the file.
  // False: they depend on each other in a circle.
  bool order_nodes() {
    order_.clear();
    const std::vector<ChakraReadNode>& nodes = file_.nodes;
    std::map<std::uint64_t, std::size_t> by_id;
    for (std::size_t at = 0; at < nodes.size(); ++at) {
      if (!by_id.try_emplace(nodes[at].id, at).second) {
        throw bad_chakra(trace_.place, fmt::format("two nodes have id {}", nodes[at].id));
      }
    }
    std::vector<std::vector<std::size_t>> followers(nodes.size());
    std::vector<std::size_t> open(nodes.size(), 0);
    for (std::size_t at = 0; at < nodes.size(); ++at) {
      for (const auto* list : {&nodes[at].control, &nodes[at].data}) {
        if (list == &nodes[at].control && !control_orders_) continue;
        for (const std::uint64_t id : *list) {
          const auto found = by_id.find(id);
          if (found == by_id.end()) continue;  // As ASTRA-sim's feeder, which drops such nodes.
          followers[found->second].push_back(at);
          ++open[at];
        }
      }
    }
    const auto key = [&](std::size_t at) {
      return std::make_tuple(trace_.in_program_order ? 0 : nodes[at].start_us, at);
    };
    const auto later = [&](std::size_t a, std::size_t b) { return key(a) > key(b); };
    std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(later)> ready(later);
    for (std::size_t at = 0; at < nodes.size(); ++at) {
      if (open[at] == 0) ready.push(at);
    }
    while (!ready.empty()) {
      order_.push_back(ready.top());
      ready.pop();
      for (const std::size_t next : followers[order_.back()]) {
        if (--open[next] == 0) ready.push(next);
      }
    }
    return order_.size() == nodes.size();
  }

  // In program order: those that are waited for. Else all.
  std::vector<std::size_t> dependencies_of(const ChakraReadNode& node) const {
    std::vector<std::size_t> after;
    const auto add = [&](std::size_t at) {
      if (std::ranges::find(after, at) == after.end()) after.push_back(at);
    };
    const auto add_all = [&](const std::vector<std::uint64_t>& ids) {
      for (const std::uint64_t id : ids) {
        if (const auto found = place_.find(id); found != place_.end()) add(found->second);
        if (const auto found = passed_.find(id); found != passed_.end()) {
          for (const std::size_t at : found->second) add(at);
        }
      }
    };
    if (!trace_.in_program_order && control_orders_) add_all(node.control);
    add_all(node.data);
    return after;
  }

  // The recorded time, in picoseconds where the trace has that.
  std::int64_t duration_of(const ChakraReadNode& node) {
    if (node.has(chakra::attribute_name::kDuration)) {
      ++totals_.exact;
      return std::max<std::int64_t>(node.number(chakra::attribute_name::kDuration, 0), 0);
    }
    if (node.duration_us > 0) ++totals_.rounded;
    return static_cast<std::int64_t>(node.duration_us) * kPicosecondsPerMicrosecond;
  }

  TraceNode node_of(const ChakraReadNode& node) {
    TraceNode made;
    made.kind = kind_of(node);
    const std::int64_t duration = duration_of(node);
    const double seconds = Time::from_picoseconds(duration).seconds();
    totals_.recorded_s += seconds;
    if (made.kind != Kind::none) totals_.covered_s += seconds;
    made.host_ps = std::max<std::int64_t>(node.number(chakra::attribute_name::kHostTime, 0), 0);
    const std::string host_waits = node.text(chakra::attribute_name::kHostWaits);
    for (const std::string_view word : split_at(host_waits, ' ')) {
      if (const auto count = parse_number<std::size_t>(word)) made.host_waits.push_back(*count);
    }
    switch (made.kind) {
      case Kind::device:
        made.device_ps = duration;
        made.row = operation_of(node);
        if (duration == 0 && made.row.empty()) ++totals_.without_time;
        break;
      case Kind::host:
        made.host_ps = duration;
        break;
      case Kind::mark:
        made.row = node.text(chakra::attribute_name::kMark);
        break;
      case Kind::none:
        break;
      default:
        add_communication(node, made);
    }
    return made;
  }

  Kind kind_of(const ChakraReadNode& node) {
    if (node.is(NodeType::metadata)) {
      add_process_groups(node, static_cast<int>(traces_.ranks.size()), traces_);
      if (node.has(chakra::attribute_name::kCall)) return Kind::send;  // It sends nothing.
      return node.has(chakra::attribute_name::kMark) ? Kind::mark : Kind::none;
    }
    // A call of a communication is the host's, as any operator; its kernel is another node.
    if (node.number("is_cpu_op", 0) != 0) return Kind::host;
    if (node.is(NodeType::compute) || node.is(NodeType::memory_load) ||
        node.is(NodeType::memory_store)) {
      return Kind::device;
    }
    if (node.is(NodeType::send)) return Kind::send;
    if (node.is(NodeType::recv)) return Kind::recv;
    if (!node.is(NodeType::collective)) return Kind::none;
    return collective_of(node) == nullptr ? Kind::device : Kind::collective;
  }

  static const chakra::CollectiveType* collective_of(const ChakraReadNode& node) {
    const std::int64_t type = node.number("comm_type", -1);
    const auto* const found =
        std::ranges::find(chakra::kCollectiveTypes, type, &chakra::CollectiveType::type);
    return found == chakra::kCollectiveTypes.end() ? nullptr : found;
  }

  // The operation as a row, if the trace has counted it: empty where it has not.
  std::string operation_of(const ChakraReadNode& node) const {
    if (node.has(chakra::attribute_name::kOperation)) {
      return node.text(chakra::attribute_name::kOperation);
    }
    const std::int64_t flops = node.number("num_ops", 0);
    const std::int64_t bytes = node.number("tensor_size", 0);
    if (!counts_operations_ || flops <= 0 || bytes <= 0) return {};
    const ProgramJson row = {{"name", node.name},
                             {"kind", "matmul"},
                             {"dtype", name_of(DType::bf16)},
                             {"flops", flops},
                             {"bytes", bytes}};
    return row.dump(-1, ' ', false, ProgramJson::error_handler_t::replace);
  }

  void add_communication(const ChakraReadNode& node, TraceNode& made) {
    made.row = node.text(chakra::attribute_name::kCall);
    made.follows = node.number(chakra::attribute_name::kFollows, 0) != 0;
    made.part_of_batch = static_cast<int>(std::clamp<std::int64_t>(
        node.number(chakra::attribute_name::kPartOfBatch, -1), -1, kMostProgramRanks));
    const std::string group = node.text("pg_name");
    made.group = group.empty() ? kWholeWorld : group;
    made.bytes = node.number("comm_size", 0);
    if (made.bytes < 0) throw bad_chakra(trace_.place, "a comm_size is negative");
    if (made.kind == Kind::collective) made.collective = collective_of(node)->kind;
    if (!made.row.empty() && node.is(NodeType::metadata)) return;
    if (made.row.empty() && made.bytes == 0 && row_of(made.collective).path != CollectivePath::none)
      ++totals_.uncounted;
    if (made.kind == Kind::collective) return;
    const std::int64_t peer = node.number(made.kind == Kind::send ? "comm_dst" : "comm_src", -1);
    if (peer < 0 || peer >= kMostProgramRanks || peer == rank_) {
      throw bad_chakra(trace_.place, fmt::format("node {} has no peer", node.id));
    }
    made.peer = static_cast<int>(peer);
  }

  const ChakraFile& file_;
  TraceSet& traces_;
  ReadTotals& totals_;
  int rank_;
  bool counts_operations_ = true;
  bool control_orders_ = true;  // Control dependencies say the order of nodes, too.
  TraceRank trace_;
  std::vector<std::size_t> order_;
  std::map<std::uint64_t, std::size_t> place_;                // By id.
  std::map<std::uint64_t, std::vector<std::size_t>> passed_;  // Nodes without time, by id.
};

// --- Notes -------------------------------------------------------------------------------------

void add_notes(const ReadTotals& totals, TraceSet& traces) {
  traces.notes.emplace_back(
      "memory is not in a Chakra trace, nor are norms told apart from other communication");
  if (totals.recorded_s > 0.0) {
    traces.notes.push_back(
        fmt::format("{:.1f} % of the recorded {:.6g} s of all nodes are priced or taken over",
                    100.0 * totals.covered_s / totals.recorded_s, totals.recorded_s));
  }
  if (totals.rounded > 0) {
    traces.notes.push_back(fmt::format(
        "{} of {} durations are whole microseconds, so each may be off by 0.5 us, together by {} "
        "us at most",
        totals.rounded, totals.rounded + totals.exact, (totals.rounded + 1) / 2));
  }
  if (totals.with_later_groups > 0) {
    traces.notes.emplace_back(
        "some groups were formed within the steps; the list of groups does not say when, so they "
        "are formed before, and the steps miss the time that it took");
  }
  if (totals.without_control > 0) {
    traces.notes.emplace_back(
        "control dependencies go in circles: they say who called whom, and only data dependencies "
        "order the nodes");
  }
  if (totals.without_time > 0) {
    traces.notes.push_back(fmt::format(
        "{} nodes of the device have neither a time nor counted operations: they take no time",
        totals.without_time));
  }
  if (totals.uncounted > 0) {
    traces.notes.push_back(
        fmt::format("{} communications have no size: they cost their latency", totals.uncounted));
  }
}

}  // namespace

TraceSet read_chakra(const std::vector<TraceFile>& files, const std::string& groups) {
  TraceSet traces;
  traces.name = files.front().path;
  traces.ranks.resize(files.size());
  if (!groups.empty()) {
    add_groups(ProgramJson::parse(groups, nullptr, /*allow_exceptions=*/false),
               "the list of groups", traces);
  }
  ReadTotals totals;
  for (std::size_t rank = 0; rank < files.size(); ++rank) {
    const ChakraFile file = read_chakra_file(files[rank]);
    traces.ranks[rank] = ChakraRankReader(file, files[rank], traces, totals).read();
    const auto settings = file.metadata.find(chakra::attribute_name::kSettings);
    if (settings != file.metadata.end()) traces.settings = settings->second.text;
    if (settings == file.metadata.end()) traces.settings = kMeasuredSettings;
    if (file.metadata.contains(chakra::attribute_name::kLaterGroups)) ++totals.with_later_groups;
  }
  add_notes(totals, traces);
  return traces;
}

}  // namespace shardsim

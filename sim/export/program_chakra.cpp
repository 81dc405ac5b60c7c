#include "sim/export/program_chakra.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "backends/program/program_tables.hpp"

#include "sim/export/chakra_node.hpp"
#include "sim/export/recorded_run.hpp"

namespace shardsim {

namespace {

using chakra::NodeType;
namespace attributes = chakra::attribute_name;
using Ids = std::vector<std::uint64_t>;

// --- Groups ------------------------------------------------------------------------------------

// World ranks of a group of the program where `rank` has it.
std::vector<int> world_members(const RankProgram& program, int group, int rank) {
  const ProgramGroup& made = program.groups[static_cast<std::size_t>(group)];
  std::vector<int> members;
  if (group == 0) {
    for (int i = 0; i < made.members.size; ++i) members.push_back(i);
    return members;
  }
  const std::vector<int> parent = world_members(program, made.parent, rank);
  const RankSpan span = made.members_for(rank);
  for (int i = 0; i < span.size; ++i) {
    members.push_back(parent.at(static_cast<std::size_t>(span.rank(i))));
  }
  return members;
}

// All groups of all ranks. A group is known by its parent, by which of the parent's splits has
// formed it, and by its members; the world is 0.
class ProgramGroups {
 public:
  explicit ProgramGroups(const RankPrograms& programs) : numbers_(programs.of_rank.size()) {
    using Key = std::tuple<int, int, std::vector<int>>;
    std::map<Key, int> known;
    for (std::size_t rank = 0; rank < programs.of_rank.size(); ++rank) {
      const RankProgram& program =
          programs.programs[static_cast<std::size_t>(programs.of_rank[rank])];
      std::vector<int> splits(program.groups.size(), 0);  // By group, those before.
      for (std::size_t group = 0; group < program.groups.size(); ++group) {
        const int parent = program.groups[group].parent;
        const bool is_world = parent < 0;
        const int split = is_world ? 0 : splits[static_cast<std::size_t>(parent)]++;
        numbers_[rank].push_back(-1);
        if (program.groups[group].members.size == 0) continue;
        const Key key{is_world ? -1 : numbers_[rank][static_cast<std::size_t>(parent)], split,
                      world_members(program, static_cast<int>(group), static_cast<int>(rank))};
        const auto [found, is_new] = known.try_emplace(key, static_cast<int>(members_.size()));
        if (is_new) members_.push_back(std::get<2>(key));
        numbers_[rank].back() = found->second;
      }
    }
  }

  [[nodiscard]] int number_of(int rank, int group) const {
    return numbers_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(group)];
  }
  [[nodiscard]] const std::vector<int>& members(int number) const {
    return members_[static_cast<std::size_t>(number)];
  }
  [[nodiscard]] std::string json() const { return chakra_groups_json(members_); }

 private:
  std::vector<std::vector<int>> numbers_;  // By rank, and group of its program.
  std::vector<std::vector<int>> members_;  // By number.
};

// --- Nodes -------------------------------------------------------------------------------------

// The times of one rank's steps: those of a track come in the order of its steps.
class StepTimes {
 public:
  explicit StepTimes(const RankTrace& trace) {
    for (const TraceTrack& track : trace.tracks) {
      std::vector<const TraceSlice*>& slices = tracks_.emplace_back();
      for (const TraceSlice& slice : track.slices) {
        if (!makes_groups(slice.name)) slices.push_back(&slice);
      }
      // They are listed as they were waited for.
      std::ranges::stable_sort(slices, {}, [](const TraceSlice* slice) {
        return std::make_pair(slice->begin, slice->end);
      });
    }
    next_.resize(tracks_.size(), 0);
  }
  // Throws Error E1373 (internal) if it is not called so.
  const TraceSlice& next(std::size_t track, const char* name) {
    const TraceSlice& slice = *tracks_.at(track).at(next_.at(track)++);
    if (same_text(slice.name, name)) return slice;
    throw Error(ExitCode::internal, "E1373",
                fmt::format("{} was traced where {} was called", slice.name, name),
                "please report this scenario");
  }

 private:
  std::vector<std::vector<const TraceSlice*>> tracks_;
  std::vector<std::size_t> next_;
};

class ProgramChakra {
 public:
  ProgramChakra(const RankProgram& program, const RankTrace& trace, const ProgramGroups& groups,
                const Experiment& experiment)
      : program_(program),
        tables_(*program.tables),
        rank_(trace.rank),
        groups_(groups),
        experiment_(experiment),
        times_(trace),
        works_(program.num_works),
        ends_(program.num_works),
        last_of_group_(program.groups.size()) {
    std::size_t track = 1;
    for (const ProgramGroup& group : program.groups) {
      tracks_.push_back(group.members.size == 0 ? 0 : track++);
    }
  }

  std::string write(const ProgramSettings& settings) {
    std::vector<std::pair<std::string_view, std::string>> metadata = {
        {attributes::kOrder, "1"}, {attributes::kSettings, program_row_of(settings)}};
    if (const std::int64_t later = num_later_groups(); later > 0) {
      metadata.emplace_back(attributes::kLaterGroups, std::to_string(later));
    }
    file_ = chakra_metadata(metadata);
    for (const ProgramStep& step : program_.steps) write(step);
    return std::move(file_);
  }

 private:
  using Kind = ProgramStep::Kind;

  [[nodiscard]] std::int64_t num_later_groups() const {
    const auto first = std::ranges::find(program_.steps, Kind::mark, &ProgramStep::kind);
    return std::count_if(first, program_.steps.end(),
                         [](const ProgramStep& step) { return step.kind == Kind::join; });
  }

  void write(const ProgramStep& step) {
    switch (step.kind) {
      case Kind::compute:
        return write_operation(tables_.operation(step.row));
      case Kind::follow:
        followed_ = works_[step.slot];
        return;
      case Kind::post:
        return write_call(tables_.call(step.row), step.slot);
      case Kind::wait:
        for (const std::uint64_t id : works_[step.slot]) waited_.push_back(id);
        ++num_waits_;
        now_ = max(now_, ends_[step.slot]);
        return;
      case Kind::synchronize:
        host_waits_ += fmt::format("{}{}", host_waits_.empty() ? "" : " ", num_waits_);
        return;
      case Kind::mark:
        return write_mark(tables_.mark(step.row));
      default:
        return;  // Groups are listed apart, and memory has no place in a trace.
    }
  }

  // A node that begins after what the device has waited for since its last node.
  ChakraNode begin(NodeType type, std::string_view name, Time begin, Time end, const Ids& control,
                   Ids data) {
    ChakraNode node(next_id_, name, type);
    data.insert(data.end(), followed_.begin(), followed_.end());
    node.add_dependencies(control, data);
    node.add_time(begin, end);
    node.add_number("is_cpu_op", chakra::attribute_field::kBool,
                    type == NodeType::metadata ? 1 : 0);
    if (!host_waits_.empty()) node.add_string(attributes::kHostWaits, host_waits_);
    return node;
  }
  void end(const ChakraNode& node) {
    file_ += node.framed();
    ++next_id_;
    num_waits_ = 0;
    host_waits_.clear();
  }

  void write_operation(const ComputeOp& op) {
    const TraceSlice& slice = times_.next(0, op.name);
    ChakraNode node = begin(NodeType::compute, op.name, slice.begin, slice.end, last_, waited_);
    const Scenario& scenario = experiment_.scenario();
    constexpr double kTera = 1e12;
    node.add_roofline(scenario.system.device,
                      scenario.system.device.peak_tflops.of(scenario.training.dtype()) * kTera,
                      slice.end - slice.begin);
    node.add_number(attributes::kHostTime, chakra::attribute_field::kInt64,
                    experiment_.world().cluster.device.issue_price(op).picoseconds());
    node.add_string(attributes::kOperation, program_row_of(op));
    last_ = {next_id_};
    waited_.clear();
    now_ = max(now_, slice.end);
    end(node);
  }

  void write_mark(const ProgramMark& mark) {
    ChakraNode node = begin(NodeType::metadata, "mark", now_, now_, last_, waited_);
    node.add_string(attributes::kMark, program_row_of(mark));
    end(node);
  }

  void write_call(const ProgramCall& call, std::uint32_t slot) {
    const auto group = static_cast<std::size_t>(call.group);
    const TraceSlice& slice = times_.next(tracks_[group], call.record.name);
    // It begins behind the group's calls before it, and behind the device or what it follows.
    const Ids control = last_of_group_[group];
    Ids data = waited_;
    if (followed_.empty()) data.insert(data.begin(), last_.begin(), last_.end());
    works_[slot].clear();
    ends_[slot] = slice.end;
    if (call.kind == CallKind::collective) {
      write_collective(call, slice, control, data, slot);
    } else if (call.messages.empty()) {
      write_message(call, nullptr, slice, control, data, slot);
    }
    for (const ProgramMessage& message : call.messages) {
      write_message(call, &message, slice, control, data, slot);
    }
    last_of_group_[group] = works_[slot];
    followed_.clear();
  }

  void add_call(const ProgramCall& call, std::uint32_t slot, ChakraNode& node) {
    if (works_[slot].empty()) node.add_string(attributes::kCall, program_row_of(call));
    if (!followed_.empty())
      node.add_number(attributes::kFollows, chakra::attribute_field::kBool, 1);
    node.add_string("pg_name", std::to_string(groups_.number_of(rank_, call.group)));
    works_[slot].push_back(next_id_);
    end(node);
  }

  void write_collective(const ProgramCall& call, const TraceSlice& slice, const Ids& control,
                        const Ids& data, std::uint32_t slot) {
    ChakraNode node =
        begin(NodeType::collective, fmt::format("{} {}", name_of_group(call), call.record.name),
              slice.begin, slice.end, control, data);
    node.add_number("comm_type", chakra::attribute_field::kInt64,
                    chakra_collective_type(call.record.name));
    node.add_number("comm_size", chakra::attribute_field::kInt64, input_bytes(call));
    add_call(call, slot, node);
  }

  // Null: an empty batch, which takes its place among the group's calls and moves nothing.
  void write_message(const ProgramCall& call, const ProgramMessage* message,
                     const TraceSlice& slice, const Ids& control, const Ids& data,
                     std::uint32_t slot) {
    const int number = groups_.number_of(rank_, call.group);
    const std::vector<int>& members = groups_.members(number);
    const bool sends = message == nullptr || message->sends;
    const int peer = message == nullptr ? rank_ : members[static_cast<std::size_t>(message->peer)];
    if (message == nullptr) {
      ChakraNode node =
          begin(NodeType::metadata, "empty batch", slice.begin, slice.end, control, data);
      return add_call(call, slot, node);
    }
    const int source = sends ? rank_ : peer;
    const int target = sends ? peer : rank_;
    ChakraNode node = begin(sends ? NodeType::send : NodeType::recv,
                            fmt::format("{} {}", name_of_group(call), sends ? "send" : "recv"),
                            slice.begin, slice.end, control, data);
    using chakra::attribute_field::kInt32;
    node.add_number("comm_src", kInt32, source);
    node.add_number("comm_dst", kInt32, target);
    node.add_number("comm_tag", kInt32, tag_of(number, source, target));
    node.add_number("comm_size", chakra::attribute_field::kInt64, message->bytes());
    if (call.kind == CallKind::batch) {
      node.add_number(attributes::kPartOfBatch, kInt32, std::ssize(works_[slot]));
    }
    add_call(call, slot, node);
  }

  [[nodiscard]] const std::string& name_of_group(const ProgramCall& call) const {
    return program_.groups[static_cast<std::size_t>(call.group)].name;
  }

  // The rank gives so much: its chunk where members have chunks.
  [[nodiscard]] std::int64_t input_bytes(const ProgramCall& call) const {
    const CollectiveRow& row = row_of(call.collective);
    const std::vector<int>& members = groups_.members(groups_.number_of(rank_, call.group));
    const auto place =
        static_cast<std::size_t>(std::ranges::find(members, rank_) - members.begin());
    const bool is_root = call.record.root == static_cast<int>(place);
    std::int64_t elements = call.record.count;
    if (row.input == BufferPart::chunk ||
        (row.output == BufferPart::chunk && row.root == RootRole::source && !is_root)) {
      elements = call.counts.empty() ? elements / std::ssize(members) : call.counts[place];
    }
    for (const std::int64_t count : call.send_counts) elements += count;
    return elements * size_of(call.record.dtype);
  }

  // The n-th message of a group between two ranks has equal tags on both: groups are numbered alike
  // on all ranks, and each keeps its messages in order.
  std::int32_t tag_of(int group, int source, int target) {
    return chakra_tag(group, messages_[{group, source, target}]++);
  }

  const RankProgram& program_;
  const ProgramTables& tables_;
  int rank_;
  const ProgramGroups& groups_;
  const Experiment& experiment_;
  StepTimes times_;
  std::vector<std::size_t> tracks_;  // By group of the program.
  std::string file_;
  std::uint64_t next_id_ = 0;
  Time now_;
  Ids last_;                        // The device's last node.
  Ids waited_;                      // Since then, in order.
  std::size_t num_waits_ = 0;       // Since the last node.
  std::string host_waits_;          // After how many of them.
  Ids followed_;                    // By the next call.
  std::vector<Ids> works_;          // By slot.
  std::vector<Time> ends_;          // By slot, of its call.
  std::vector<Ids> last_of_group_;  // By group of the program.
  std::map<std::tuple<int, int, int>, std::int32_t> messages_;
};

}  // namespace

ChakraExport chakra_of_programs(Scenario scenario, const RunHooks& hooks) {
  const Experiment experiment(traced_everywhere(std::move(scenario)));
  const ProgramSet set = record_programs(experiment);
  if (!std::ranges::all_of(set.programs.programs, &RankProgram::has_one_stream)) {
    throw UsageError("E1399",
                     "programs with several streams of computing (parallelism.offload_layers) have "
                     "no form in Chakra",
                     "leave offload_layers out, or export kineto");
  }
  const RunOutcome outcome = run_experiment(experiment, hooks);
  require_finished(outcome);
  const ProgramGroups groups(set.programs);
  ChakraExport made{.ranks = {}, .groups = groups.json()};
  for (const RankTrace& trace : outcome.traces) {
    const int program = set.programs.of_rank[static_cast<std::size_t>(trace.rank)];
    made.ranks.push_back(ProgramChakra(set.programs.programs[static_cast<std::size_t>(program)],
                                       trace, groups, experiment)
                             .write(set.settings));
  }
  return made;
}

}  // namespace shardsim

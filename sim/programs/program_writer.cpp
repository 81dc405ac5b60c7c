#include <algorithm>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "sim/hardware/software.hpp"

#include "backends/program/program_tables.hpp"

#include "scenarios/enumerations.hpp"

#include "sim/programs/program_rows.hpp"
#include "sim/programs/program_set.hpp"

namespace shardsim {

namespace {

std::string text_of(const ProgramJson& json) {
  return json.dump(-1, ' ', false, ProgramJson::error_handler_t::replace);
}

std::string line_of(const char* key, ProgramJson value) {
  ProgramJson line = ProgramJson::object();
  line[key] = std::move(value);
  return text_of(line) + "\n";
}

ProgramJson json_of(const ComputeOp& op) {
  ProgramJson json = {{"name", op.name},
                      {"kind", program_word_of(kComputeKindWords, op.kind)},
                      {"dtype", name_of(op.dtype)},
                      {"flops", op.flops},
                      {"bytes", op.bytes}};
  if (op.launch != HostLaunch::each_kernel) {
    json["launch"] = program_word_of(kLaunchWords, op.launch);
  }
  if (op.shape == KernelShape{}) return json;
  json["family"] = name_of(op.shape.family);
  json["shape"] = {op.shape.m, op.shape.n, op.shape.k, op.shape.batch};
  if (op.shape.has_block_scales) json["block_scales"] = true;
  return json;
}

ProgramJson json_of(const ProgramHole& hole) {
  return {{"name", hole.name},
          {"device_ps", hole.device.picoseconds()},
          {"host_ps", hole.host.picoseconds()}};
}

ProgramJson json_of(const ProgramAllocation& allocation) {
  ProgramJson json = {{"category", name_of(allocation.category)}, {"bytes", allocation.bytes}};
  if (allocation.on_host) json["on_host"] = true;
  return json;
}

ProgramJson json_of(const ProgramCall& call) {
  const CallRecord& record = call.record;
  const bool is_collective = call.kind == CallKind::collective;
  ProgramJson json = {{"group", call.group},
                      {"kind", is_collective ? name_of(call.collective)
                                             : program_word_of(kMessageWords, call.kind)},
                      {"dtype", name_of(record.dtype)},
                      {"count", record.count}};
  if (record.reduces) json["reduction"] = name_of(record.reduce);
  if (record.root != -1) json["root"] = record.root;
  if (*record.label != '\0') json["label"] = record.label;
  if (record.traffic != TrafficClass::payload)
    json["traffic"] = program_word_of(kTrafficWords, record.traffic);
  if (record.padding != 0) json["padding"] = record.padding;
  for (const ElementRange& range : call.padding_at) {
    json["padding_at"].push_back({range.begin, range.end});
  }
  if (!call.counts.empty()) json["counts"] = call.counts;
  if (!call.send_counts.empty()) json["send_counts"] = call.send_counts;
  if (!call.recv_counts.empty()) json["recv_counts"] = call.recv_counts;
  for (const ProgramMessage& message : call.messages) {
    json["messages"].push_back({{message.sends ? "to" : "from", message.peer},
                                {"dtype", name_of(message.dtype)},
                                {"count", message.count}});
  }
  return json;
}

ProgramJson json_of(const ProgramTally& tally) {
  return {{"name", tally.name}, {"first", tally.first}, {"amounts", tally.amounts}};
}

ProgramJson json_of(const ProgramMark& mark) {
  ProgramJson json = {{"kind", program_word_of(kMarkWords, mark.kind)}, {"step", mark.step}};
  if (mark.skipped) json["skipped"] = true;
  if (mark.next_scale != 1.0) json["next_scale"] = mark.next_scale;
  return json;
}

ProgramJson json_of(const ProgramPlace& place) {
  ProgramJson json = ProgramJson::object();
  if (*place.module != '\0') json["module"] = place.module;
  if (place.phase != ProgramPlace::Phase::none) json["phase"] = name_of(place.phase);
  return json;
}

ProgramJson json_of(const ProgramSettings& settings) {
  return {{"buffered_sends", settings.buffered_sends},
          {"all_reduce_algorithm", program_word_of(kAllReduceNames, settings.all_reduce_algorithm)},
          {"attention_drops", settings.attention_drops},
          {"overlap_is_recorded", settings.overlap_is_recorded}};
}

std::string text_of(const ProgramStep& step) {
  using Kind = ProgramStep::Kind;
  const char letter = kStepLetters[static_cast<std::size_t>(step.kind)];
  switch (step.kind) {
    case Kind::allocate:
    case Kind::post:
      return fmt::format("{}{}:{}", letter, step.row, step.slot);
    case Kind::release:
    case Kind::follow:
    case Kind::wait:
      return fmt::format("{}{}", letter, step.slot);
    case Kind::synchronize:
      return {letter};
    case Kind::compute:
    case Kind::hole:
      if (step.slot > 0) return fmt::format("{}{}:{}", letter, step.row, step.slot - 1);
      return fmt::format("{}{}", letter, step.row);
    default:
      return fmt::format("{}{}", letter, step.row);
  }
}

// Ranks in order, as [first, count] each.
ProgramJson ranks_of(const std::vector<int>& of_rank, int program) {
  ProgramJson runs = ProgramJson::array();
  for (std::size_t rank = 0; rank < of_rank.size(); ++rank) {
    if (of_rank[rank] != program) continue;
    if (rank > 0 && of_rank[rank - 1] == program) {
      runs.back()[1] = runs.back()[1].get<int>() + 1;
    } else {
      runs.push_back({rank, 1});
    }
  }
  return runs;
}

void write_steps(const RankProgram& program, std::string& text) {
  for (std::size_t begin = 0; begin < program.steps.size(); begin += kStepsInLine) {
    const std::size_t end = std::min(begin + kStepsInLine, program.steps.size());
    std::string steps;
    for (std::size_t i = begin; i < end; ++i) {
      steps += (steps.empty() ? "" : " ") + text_of(program.steps[i]);
    }
    text += line_of("steps", steps);
  }
}

}  // namespace

ProgramJson program_json_of(const ProgramGroup& group) {
  ProgramJson json = {{"name", group.name}, {"parent", group.parent}};
  const RankSpan& span = group.members;
  json["size"] = span.size;
  if (span.size == 0) return json;
  json["base"] = span.base;
  for (const RankSpan::Axis& axis : span.axes) json["axes"].push_back({axis.size, axis.stride});
  json["first"] = span.first;
  json["step"] = span.step;
  return json;
}

std::string program_row_of(const ComputeOp& op) { return text_of(json_of(op)); }

std::string program_row_of(const ProgramCall& call) {
  ProgramJson json = json_of(call);
  json.erase("group");
  return text_of(json);
}

std::string program_row_of(const ProgramMark& mark) { return text_of(json_of(mark)); }

std::string program_row_of(const ProgramSettings& settings) { return text_of(json_of(settings)); }

std::string program_file_of(const ProgramSet& set) {
  const RankPrograms& programs = set.programs;
  const ProgramTables& tables = *programs.programs.front().tables;
  ProgramJson header = {{kProgramVersionKey, kProgramVersion},
                        {"name", set.name},
                        {"ranks", programs.of_rank.size()},
                        {"neighbours", programs.neighbours}};
  header.update(json_of(set.settings));
  header["notes"] = set.notes;
  std::string text = text_of(header) + "\n";
  const auto write = [&text](const char* key, std::size_t count, const auto& row) {
    for (std::uint32_t i = 0; i < count; ++i) text += line_of(key, json_of(row(i)));
  };
  using Row = std::uint32_t;
  write("operation", tables.num_operations(), [&](Row i) { return tables.operation(i); });
  write("hole", tables.num_holes(), [&](Row i) { return tables.hole(i); });
  write("allocation", tables.num_allocations(), [&](Row i) { return tables.allocation(i); });
  write("call", tables.num_calls(), [&](Row i) { return tables.call(i); });
  write("tally", tables.num_tallies(), [&](Row i) { return tables.tally(i); });
  write("mark", tables.num_marks(), [&](Row i) { return tables.mark(i); });
  write("place", tables.num_places(), [&](Row i) { return tables.place(i); });
  for (std::size_t i = 0; i < programs.programs.size(); ++i) {
    const RankProgram& program = programs.programs[i];
    ProgramJson groups = ProgramJson::array();
    for (std::size_t group = 1; group < program.groups.size(); ++group) {
      groups.push_back(program_json_of(program.groups[group]));
    }
    text += line_of("program", {{"rank", program.rank},
                                {"ranks", ranks_of(programs.of_rank, static_cast<int>(i))},
                                {"groups", groups}});
    write_steps(program, text);
  }
  return text;
}

}  // namespace shardsim

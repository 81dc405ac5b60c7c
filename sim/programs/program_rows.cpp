#include "sim/programs/program_rows.hpp"

#include <algorithm>

#include "sim/hardware/software.hpp"

#include "scenarios/enumerations.hpp"

namespace shardsim {

ProgramHeader program_header_of(ProgramFields& fields) {
  const ProgramJson* const version = fields.find(kProgramVersionKey);
  if (version == nullptr || !version->is_number_integer() || *version != kProgramVersion) {
    fields.refuse("this is no program file of version 1",
                  "begin with {\"shardsim_program\": 1, ...}, or export it again");
  }
  ProgramHeader header;
  if (fields.has("name")) header.name = fields.text("name");
  header.ranks = static_cast<int>(fields.number("ranks", 1, kMostProgramRanks));
  header.neighbours = static_cast<int>(fields.number_or(1, "neighbours", 1, kMostProgramRanks));
  header.settings.buffered_sends = fields.truth("buffered_sends");
  header.settings.attention_drops = fields.truth("attention_drops");
  header.settings.overlap_is_recorded = fields.truth("overlap_is_recorded");
  if (fields.has("all_reduce_algorithm")) {
    header.settings.all_reduce_algorithm =
        fields.choice<Algorithm>("all_reduce_algorithm", kAllReduceNames);
  }
  if (const ProgramJson* const notes = fields.find("notes")) {
    for (const ProgramJson& note : fields.array(*notes, "notes")) {
      if (!note.is_string()) fields.refuse("a note is no text", "write a list of texts");
      header.notes.push_back(note);
    }
  }
  if (fields.has("recorded")) {
    header.recorded = static_cast<int>(fields.number("recorded", 0, header.ranks - 1));
  }
  fields.end();
  return header;
}

ComputeOp program_operation_of(ProgramFields& fields, const std::string& name) {
  ComputeOp op{.name = name.c_str(),
               .kind = fields.choice<ComputeKind>("kind", kComputeKindWords),
               .dtype = fields.dtype(),
               .flops = fields.number("flops", 0, kMostProgramWork),
               .bytes = fields.number("bytes", 0, kMostProgramWork)};
  if (fields.has("launch")) op.launch = fields.choice<HostLaunch>("launch", kLaunchWords);
  const ProgramJson* const shape = fields.find("shape");
  if (shape == nullptr) return op;
  op.shape.family = static_cast<KernelFamily>(fields.choice(
      "family", kKernelFamilies, [](auto i) { return name_of(static_cast<KernelFamily>(i)); }));
  if (fields.array(*shape, "shape").size() != 4) {
    fields.refuse("\"shape\" is no list of four", "write [m, n, k, batch]");
  }
  const auto size = [&](std::size_t at, std::int64_t least) {
    return fields.number((*shape)[at], "shape", least, kMostProgramSize);
  };
  op.shape.m = size(0, 0);
  op.shape.n = size(1, 0);
  op.shape.k = size(2, 0);
  op.shape.batch = size(3, 0);
  op.shape.has_block_scales = fields.truth("block_scales");
  double product = 1.0;  // Prices count it in 64 bits.
  for (const std::int64_t axis : {op.shape.m, op.shape.n, op.shape.k, op.shape.batch}) {
    product *= static_cast<double>(std::max<std::int64_t>(axis, 1));
  }
  if (product > static_cast<double>(kMostProgramWork)) {
    fields.refuse("\"shape\" is larger than any operation", "write the sizes of one operation");
  }
  return op;
}

namespace {

void take_kind(ProgramFields& fields, ProgramCall& call) {
  std::vector<std::string> words;
  for (const CollectiveRow& row : kCollectiveRows) {
    if (!makes_groups(row.name)) words.emplace_back(row.name);
  }
  const std::size_t num_collectives = words.size();
  words.insert(words.end(), kMessageWords.begin() + 1, kMessageWords.end());
  const std::size_t kind = fields.choice("kind", words.size(), [&](auto i) { return words[i]; });
  call.record.name = kind < num_collectives ? kCollectiveRows[kind].name
                                            : kMessageWords.at(kind - num_collectives + 1);
  if (kind < num_collectives) {
    call.collective = kCollectiveRows[kind].kind;
    call.record.reduces = kCollectiveRows[kind].reduces;
  } else {
    call.kind = static_cast<CallKind>(kind - num_collectives + 1);
  }
}

ProgramMessage message_of(const ProgramJson& json, const std::string& place) {
  ProgramFields fields(json, place);
  ProgramMessage message;
  const ProgramJson* const to = fields.find("to");
  message.sends = to != nullptr;
  message.peer = static_cast<int>(
      fields.number(to != nullptr ? *to : fields.at("from"), "from", 0, kMostProgramRanks));
  message.dtype = fields.dtype();
  message.count = fields.number("count", 0, kMostProgramWork);
  fields.end();
  return message;
}

}  // namespace

ProgramCall program_call_of(ProgramFields& fields, std::string& label) {
  ProgramCall call;
  take_kind(fields, call);
  CallRecord& record = call.record;
  record.dtype = fields.dtype();
  record.count = fields.number("count", 0, kMostProgramWork);
  if (record.reduces) {
    record.reduce = static_cast<ReduceOp>(fields.choice(
        "reduction", kNumReduceOps, [](auto i) { return name_of(static_cast<ReduceOp>(i)); }));
  }
  record.root = static_cast<int>(fields.number_or(-1, "root", 0, kMostProgramRanks));
  if (fields.has("label")) label = fields.text("label");
  record.label = label.c_str();
  if (fields.has("traffic")) {
    record.traffic = fields.choice<TrafficClass>("traffic", kTrafficWords);
  }
  record.padding = fields.number_or(0, "padding", 0, kMostProgramWork);
  if (const ProgramJson* const ranges = fields.find("padding_at")) {
    for (const ProgramJson& range : fields.array(*ranges, "padding_at")) {
      if (!range.is_array() || range.size() != 2) {
        fields.refuse("a range of \"padding_at\" is no pair", "write [begin, end]");
      }
      call.padding_at.push_back({fields.number(range[0], "padding_at", 0, kMostProgramWork),
                                 fields.number(range[1], "padding_at", 0, kMostProgramWork)});
    }
  }
  call.counts = fields.numbers("counts", kMostProgramWork);
  call.send_counts = fields.numbers("send_counts", kMostProgramWork);
  call.recv_counts = fields.numbers("recv_counts", kMostProgramWork);
  if (const ProgramJson* const messages = fields.find("messages")) {
    for (const ProgramJson& each : fields.array(*messages, "messages")) {
      call.messages.push_back(message_of(each, fields.place()));
    }
  }
  return call;
}

ProgramGroup program_group_of(const ProgramJson& json, const std::string& place) {
  ProgramFields fields(json, place);
  ProgramGroup group;
  group.name = fields.text("name");
  group.parent = static_cast<int>(fields.number_or(0, "parent", 0, kMostProgramRanks));
  RankSpan& span = group.members;
  span = RankSpan::none();
  span.size = static_cast<int>(fields.number("size", 0, kMostProgramRanks));
  if (span.size == 0) {
    fields.end();
    return group;
  }
  span.base = static_cast<int>(fields.number_or(0, "base", 0, kMostProgramRanks));
  const ProgramJson& axes = fields.array(fields.at("axes"), "axes");
  if (axes.empty() || axes.size() > span.axes.size()) {
    fields.refuse(fmt::format("a group has {} axes", axes.size()), "write one to four");
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (!axes[i].is_array() || axes[i].size() != 2) {
      fields.refuse("an axis is no pair", "write [size, stride]");
    }
    span.axes.at(i) = {
        .size = static_cast<int>(fields.number(axes[i][0], "axes", 1, kMostProgramRanks)),
        .stride = static_cast<int>(fields.number(axes[i][1], "axes", 0, kMostProgramRanks))};
  }
  span.first = static_cast<int>(fields.number_or(0, "first", 0, kMostProgramRanks));
  span.step = static_cast<int>(fields.number_or(1, "step", -kMostProgramRanks, kMostProgramRanks));
  fields.end();
  return group;
}

ProgramPlace program_place_of(ProgramFields& fields, std::string& module) {
  ProgramPlace place;
  if (fields.has("module")) module = fields.text("module");
  place.module = module.c_str();
  if (fields.has("phase")) {
    const auto phase = [](std::size_t i) { return static_cast<ProgramPlace::Phase>(i + 1); };
    place.phase = phase(
        fields.choice("phase", kNumPhases - 1, [&](std::size_t i) { return name_of(phase(i)); }));
  }
  return place;
}

ProgramMark program_mark_of(ProgramFields& fields) {
  ProgramMark mark{.kind = fields.choice<ProgramMark::Kind>("kind", kMarkWords),
                   .step = fields.number("step", 0, kMostTrainingSteps),
                   .skipped = fields.truth("skipped")};
  if (const ProgramJson* const scale = fields.find("next_scale")) {
    if (!scale->is_number()) fields.refuse("\"next_scale\" is no number", "write a number");
    mark.next_scale = scale->get<double>();
  }
  return mark;
}

}  // namespace shardsim

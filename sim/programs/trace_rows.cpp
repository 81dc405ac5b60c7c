#include "sim/programs/trace_rows.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sim/hardware/collective.hpp"

namespace shardsim {

namespace {

std::string dump(const ProgramJson& json) {
  return json.dump(-1, ' ', false, ProgramJson::error_handler_t::replace);
}

// `bytes`: each member's own.
void add_chunks(const CollectiveRow& row, std::vector<std::int64_t> bytes, std::int64_t most,
                ProgramJson& json) {
  const auto size = static_cast<int>(bytes.size());
  if (row.input == BufferPart::chunk) {
    std::int64_t count = 0;
    for (const std::int64_t each : bytes) count += each;
    json["count"] = count;
  } else {
    for (int i = 0; i < size; ++i) bytes[static_cast<std::size_t>(i)] = chunk_size(most, size, i);
  }
  const bool are_equal = std::ranges::all_of(bytes, [&](auto each) { return each == bytes[0]; });
  if (!are_equal) json["counts"] = bytes;
}

}  // namespace

// --- Rows --------------------------------------------------------------------------------------

int TraceProgramText::row(const char* table, const ProgramJson& row) {
  ProgramJson line = ProgramJson::object();
  line[table] = row;
  const auto [found, is_new] = rows_.try_emplace(dump(line), counts_[table]);
  if (is_new) {
    ++counts_[table];
    text_ += found->first + "\n";
  }
  return found->second;
}

void TraceProgramText::program(int rank, const ProgramJson& groups, std::string steps) {
  programs_[{dump(groups), std::move(steps)}].push_back(rank);
}

std::string TraceProgramText::file(const ProgramJson& header) const {
  std::string text = dump(header) + "\n" + text_;
  for (const auto& [program, ranks] : programs_) {
    ProgramJson runs = ProgramJson::array();
    for (const int rank : ranks) runs.push_back({rank, 1});
    text += fmt::format("{{\"program\": {{\"rank\": {}, \"ranks\": {}, \"groups\": {}}}}}\n",
                        ranks.front(), dump(runs), program.first);
    text += fmt::format("{{\"steps\": \"{}\"}}\n", program.second);
  }
  return text;
}

ProgramJson trace_row_of(const std::string& row, const std::string& place) {
  ProgramJson json = ProgramJson::parse(row, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    throw bad_program(place, "an attribute that should be a row of a program file is none",
                      "write the trace again, or remove the attribute");
  }
  return json;
}

// --- Collectives -------------------------------------------------------------------------------

TraceCollectives::TraceCollectives(const TraceSet& traces, const TraceGroups& groups)
    : groups_(groups) {
  for (std::size_t rank = 0; rank < traces.ranks.size(); ++rank) {
    for (const TraceNode& node : traces.ranks[rank].nodes) {
      if (node.kind != TraceNode::Kind::collective) continue;
      calls_[node.group][static_cast<int>(rank)].push_back(&node);
    }
  }
  for (const auto& [group, by_rank] : calls_) {
    const std::size_t most = by_rank.begin()->second.size();
    for (const int rank : groups.members_of(group)) {
      const auto own = by_rank.find(rank);
      const std::size_t number = own == by_rank.end() ? 0 : own->second.size();
      if (number == most) continue;
      throw UsageError("E1381",
                       fmt::format("rank {} makes {} collectives in group \"{}\", rank {} makes {}",
                                   rank, number, group, by_rank.begin()->first, most),
                       "give the traces of all ranks, of the same steps");
    }
  }
}

ProgramJson TraceCollectives::row_of(const TraceNode& node, int rank, std::size_t number) const {
  const CollectiveRow& row = shardsim::row_of(node.collective);
  const std::vector<int>& members = groups_.members_of(node.group);
  const auto size = static_cast<int>(members.size());
  std::vector<std::int64_t> bytes;
  for (const int member : members) {
    bytes.push_back(calls_.at(node.group).at(member).at(number)->bytes);
  }
  const std::int64_t most = *std::ranges::max_element(bytes);
  ProgramJson json = {{"kind", row.name}, {"dtype", name_of(DType::int8)}, {"count", most}};
  if (row.reduces) json["reduction"] = name_of(ReduceOp::sum);
  if (row.root != RootRole::none) json["root"] = node.root;
  if (row.path == CollectivePath::pairs) {
    json["count"] = 0;
    const auto own = static_cast<int>(std::ranges::find(members, rank) - members.begin());
    for (int peer = 0; peer < size; ++peer) {
      json["send_counts"].push_back(chunk_size(bytes[static_cast<std::size_t>(own)], size, peer));
      json["recv_counts"].push_back(chunk_size(bytes[static_cast<std::size_t>(peer)], size, own));
    }
  } else if (row.in_chunks()) {
    add_chunks(row, bytes, most, json);
  }
  return json;
}

}  // namespace shardsim

#include "tests/programs/programs_fixture.hpp"

#include <algorithm>
#include <filesystem>

#include "backends/program/program_tables.hpp"

#include "scenarios/load.hpp"

#include "sim/programs/program_replay.hpp"
#include "tests/app/command_fixture.hpp"
#include "tests/sample.hpp"

namespace shardsim::test {

namespace {

constexpr const char* kExportedPlan = R"({
  "schema_version": 1, "name": "small plan",
  "model": {"family": "llama", "num_layers": 4, "hidden_size": 256, "ffn_hidden_size": 512,
            "num_attention_heads": 8, "vocab_size": 512, "seq_len": 256},
  "system": {"preset": "dgx-h100", "nodes": 1, "software": "none"},
  "parallelism": {"tp": 2, "pp": 2, "zero_stage": 1},
  "training": {"global_batch_size": 8, "micro_batch_size": 1},
  "execution": {"tensors": "meta", "steps": 2}
})";

bool same_text_of(const char* a, const char* b) { return std::string(a) == b; }

bool same(const ComputeOp& a, const ComputeOp& b) {
  return same_text_of(a.name, b.name) && a.kind == b.kind && a.dtype == b.dtype &&
         a.flops == b.flops && a.bytes == b.bytes && a.shape == b.shape;
}

bool same(const ProgramHole& a, const ProgramHole& b) {
  return same_text_of(a.name, b.name) && a.device == b.device && a.host == b.host;
}

bool same(const ProgramAllocation& a, const ProgramAllocation& b) { return a == b; }

bool same(const ProgramMark& a, const ProgramMark& b) { return a == b; }

bool same(const ProgramPlace& a, const ProgramPlace& b) {
  return same_text_of(a.module, b.module) && a.phase == b.phase;
}

bool same(const ProgramTally& a, const ProgramTally& b) {
  return same_text_of(a.name, b.name) && a.first == b.first && a.amounts == b.amounts;
}

bool same(const CallRecord& a, const CallRecord& b) {
  return same_text_of(a.name, b.name) && a.reduce == b.reduce && a.reduces == b.reduces &&
         a.dtype == b.dtype && a.root == b.root && a.tag == b.tag && a.count == b.count &&
         same_text_of(a.label, b.label) && a.counts_hash == b.counts_hash &&
         a.padding == b.padding && a.traffic == b.traffic;
}

bool same(const ProgramCall& a, const ProgramCall& b) {
  return a.group == b.group && a.kind == b.kind && a.collective == b.collective &&
         same(a.record, b.record) && a.label_hash == b.label_hash && a.counts == b.counts &&
         std::ranges::equal(a.padding_at, b.padding_at,
                            [](const ElementRange& one, const ElementRange& other) {
                              return one.begin == other.begin && one.end == other.end;
                            }) &&
         a.send_counts == b.send_counts && a.recv_counts == b.recv_counts &&
         a.messages == b.messages;
}

std::string difference_of(const ProgramTables& a, const ProgramTables& b) {
  const auto rows = [](const char* what, std::size_t count, std::size_t others, const auto& equal) {
    if (count != others) return std::string(what) + ": number of rows";
    for (std::uint32_t row = 0; row < count; ++row) {
      if (!equal(row)) return std::string(what) + " " + std::to_string(row);
    }
    return std::string();
  };
  using Row = std::uint32_t;
  const std::string differences[] = {
      rows("operation", a.num_operations(), b.num_operations(),
           [&](Row row) { return same(a.operation(row), b.operation(row)); }),
      rows("hole", a.num_holes(), b.num_holes(),
           [&](Row row) { return same(a.hole(row), b.hole(row)); }),
      rows("allocation", a.num_allocations(), b.num_allocations(),
           [&](Row row) { return same(a.allocation(row), b.allocation(row)); }),
      rows("call", a.num_calls(), b.num_calls(),
           [&](Row row) { return same(a.call(row), b.call(row)); }),
      rows("tally", a.num_tallies(), b.num_tallies(),
           [&](Row row) { return same(a.tally(row), b.tally(row)); }),
      rows("mark", a.num_marks(), b.num_marks(),
           [&](Row row) { return same(a.mark(row), b.mark(row)); }),
      rows("place", a.num_places(), b.num_places(),
           [&](Row row) { return same(a.place(row), b.place(row)); })};
  for (const std::string& difference : differences) {
    if (!difference.empty()) return difference;
  }
  return "";
}

bool same(const ProgramGroup& a, const ProgramGroup& b) {
  return a.parent == b.parent && a.name == b.name && a.members == b.members;
}

}  // namespace

void for_each_verification(
    const std::string& test,
    const std::function<void(const std::string& name, Scenario scenario)>& visit) {
  for (const auto& entry : std::filesystem::directory_iterator("scenarios")) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("verify-") || !name.ends_with(".json")) continue;
    if (!in_sample(test + name, 4)) continue;
    visit(name, load_scenario(entry.path(), {"execution.tensors=meta"}));
  }
}

std::string difference_of(const ProgramSet& a, const ProgramSet& b) {
  if (a.name != b.name || !(a.settings == b.settings) || a.notes != b.notes) return "header";
  const RankPrograms& one = a.programs;
  const RankPrograms& other = b.programs;
  if (one.of_rank != other.of_rank || one.neighbours != other.neighbours) return "ranks";
  if (one.programs.size() != other.programs.size()) return "number of programs";
  std::string difference =
      difference_of(*one.programs.front().tables, *other.programs.front().tables);
  for (std::size_t i = 0; difference.empty() && i < one.programs.size(); ++i) {
    const RankProgram& mine = one.programs[i];
    const RankProgram& theirs = other.programs[i];
    const auto equal = [](const ProgramGroup& x, const ProgramGroup& y) { return same(x, y); };
    if (mine.rank != theirs.rank) difference = "rank";
    if (!std::ranges::equal(mine.groups, theirs.groups, equal)) difference = "groups";
    if (mine.steps != theirs.steps) difference = "steps";
    if (mine.num_works != theirs.num_works) difference = "works";
    if (mine.num_allocations != theirs.num_allocations) difference = "allocations";
    if (mine.num_streams != theirs.num_streams) difference = "streams";
    if (mine.num_events != theirs.num_events) difference = "events";
  }
  return difference;
}

std::string small_program_file(const std::string& steps) {
  return R"({"shardsim_program": 1, "name": "small", "ranks": 2}
{"operation": {"name": "product", "kind": "matmul", "dtype": "bf16", "flops": 1000000000, "bytes": 6000000}}
{"hole": {"name": "unknown kernel", "device_ps": 5000000, "host_ps": 1000000}}
{"allocation": {"category": "activations", "bytes": 4096}}
{"call": {"group": 1, "kind": "all_reduce", "dtype": "fp32", "count": 1000, "reduction": "sum"}}
{"call": {"group": 1, "kind": "batch", "dtype": "fp32", "count": 0}}
{"mark": {"kind": "step_begins", "step": 0}}
{"mark": {"kind": "step_ends", "step": 0}}
{"program": {"rank": 0, "ranks": [[0, 2]], "groups": [{"name": "dp", "size": 2, "axes": [[2, 1]]}]}}
{"steps": ")" +
         (steps.empty() ? "j1 m0 a0:0 c0 h0 p0:0 w0 r0 m1" : steps) + "\"}\n";
}

ProgramSet imported(const std::vector<TraceFile>& files, const std::string& groups) {
  TraceSet traces = read_chakra(files, groups);
  complete_ranks(traces, 0);
  drop_idle_groups(traces);
  return link_traces(traces);
}

Time step_on(const ProgramSet& set, const Experiment& machine) {
  return replay_programs_on(set, {.cluster = machine_for(set, machine)}).step;
}

bool has_note(const ProgramSet& set, const std::string& part) {
  return std::ranges::any_of(set.notes, [&](const auto& note) { return contains(note, part); });
}

Experiment exported_plan(const std::vector<std::string>& overrides) {
  return compile(load_scenario_text(kExportedPlan, "plan.json", overrides));
}

const char* exported_plan_text() { return kExportedPlan; }

}  // namespace shardsim::test

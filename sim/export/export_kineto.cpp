#include <algorithm>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "reports/terminal_text.hpp"
#include "reports/trace_writers.hpp"
#include "sim/export/recorded_run.hpp"

#include "sim/programs/kineto_words.hpp"

// A Kineto trace is one JSON per rank, with distributedInfo, an event of category "kernel" per
// operation under the number of its stream, and NCCL's kernels with the fields of
// record_param_comms. A simulation has no host, so tools show no operators and no launches.
namespace shardsim {

namespace {

// The row whose `member` is `value`, or the first.
template <class Rows, class Member, class Value>
const auto& row_or_first(const Rows& rows, Member member, const Value& value) {
  const auto found = std::ranges::find(rows, value, member);
  return found == rows.end() ? rows.front() : *found;
}

const KinetoCollective& kineto_collective(std::string_view name) {
  return row_or_first(kKinetoCollectives, &KinetoCollective::name, name);
}

const KinetoType& kineto_type(DType dtype) {
  return row_or_first(kKinetoTypes, &KinetoType::dtype, dtype);
}

std::string kernel_name(const RecordedCall& call) {
  const KinetoCollective& collective = kineto_collective(call.name);
  if (collective.kernel == "SendRecv") return "ncclDevKernel_SendRecv";
  if (!collective.reduces) return fmt::format("ncclDevKernel_{}_RING_LL", collective.kernel);
  return fmt::format("ncclDevKernel_{}_Sum_{}_RING_LL", collective.kernel,
                     kineto_type(call.dtype).nccl);
}

std::string kineto_quoted(std::string_view text) {
  std::string json = "\"";
  for (const char c : escape_untrusted(text)) {
    if (c == '"' || c == '\\') json += '\\';
    json += c;
  }
  return json + "\"";
}

std::string kineto_time(Time time) {
  const std::int64_t nanoseconds = to_nanoseconds(time);
  return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
}

// CUDA's default stream of PyTorch's computing is 7; NCCL's come after it.
std::size_t stream_of(std::size_t track) {
  constexpr std::size_t kCompute = 7;
  constexpr std::size_t kStep = 4;
  return track == 0 ? kCompute : kCompute + 1 + kStep * track;
}

std::string communication_arguments(const RecordedRun& run, const RecordedOperation& operation) {
  const RecordedCall& call = *operation.call;
  const RecordedGroup& group = group_of(run, operation);
  return fmt::format(
      R"(, "Collective name": "{}", "In msg nelems": {}, "Out msg nelems": {}, "Group size": {}, )"
      R"("dtype": "{}", "In split size": "[]", "Out split size": "[]", "Process Group Name": "{}", )"
      R"("Process Group Description": {}, "Process Group Ranks": "[{}]")",
      kineto_collective(call.name).c10d, call.input_elements, call.output_elements,
      group.members.size(), kineto_type(call.dtype).torch, operation.group,
      kineto_quoted(group.name), fmt::join(group.members, ", "));
}

class KinetoRank {
 public:
  KinetoRank(const RecordedRun& run, int rank)
      : run_(run),
        rank_(rank),
        gpu_(rank % static_cast<int>(run.experiment.scenario().system.gpus_per_node)) {}

  std::string write() {
    const DeviceSpec& device = run_.experiment.scenario().system.device;
    std::string text = fmt::format(
        "{{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [{{\"id\": {}, \"name\": {}, "
        "\"totalGlobalMem\": {}}}],\n  \"distributedInfo\": {},\n  \"displayTimeUnit\": \"ms\",\n"
        "  \"baseTimeNanoseconds\": 0,\n  \"traceEvents\": [",
        gpu_, kineto_quoted(device.name), device.memory_bytes, distributed_info());
    for (const RecordedOperation& operation : run_.ranks[static_cast<std::size_t>(rank_)]) {
      add_event(operation);
    }
    add_step();
    add_names();
    return text + events_ + fmt::format("\n  ],\n  \"traceName\": \"rank {}\"\n}}\n", rank_);
  }

 private:
  std::string distributed_info() const {
    std::string groups;
    int count = 0;
    const std::vector<RecordedGroup>& all = run_.calls.groups();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::vector<int>& members = all[i].members;
      if (std::find(members.begin(), members.end(), rank_) == members.end()) continue;
      groups += fmt::format(
          R"({}{{"pg_name": "{}", "pg_desc": {}, "backend_config": "cuda:nccl", "pg_size": {}, )"
          R"("ranks": [{}]}})",
          count == 0 ? "" : ", ", i, kineto_quoted(all[i].name), members.size(),
          fmt::join(members, ", "));
      ++count;
    }
    return fmt::format(
        R"({{"backend": "nccl", "rank": {}, "world_size": {}, "pg_count": {}, "pg_config": [{}]}})",
        rank_, run_.experiment.scenario().system.ranks, count, groups);
  }

  void add(const std::string& event) {
    events_ += events_.empty() ? "\n    " : ",\n    ";
    events_ += event;
  }

  void add_event(const RecordedOperation& operation) {
    const TraceSlice& slice = *operation.slice;
    const std::string_view name = slice.name;
    const bool copies =
        operation.call == nullptr && (name == "copy_to_host" || name == "copy_to_device");
    const std::string shown = operation.call != nullptr ? kernel_name(*operation.call)
                              : copies ? name == "copy_to_host" ? "Memcpy DtoH (Device -> Pinned)"
                                                                : "Memcpy HtoD (Pinned -> Device)"
                                       : std::string(name);
    const std::size_t stream = stream_of(operation.track);
    streams_.insert(stream);
    ++correlation_;
    add(fmt::format(
        R"({{"ph": "X", "cat": "{}", "name": {}, "pid": {}, "tid": {}, "ts": {}, "dur": {}, )"
        R"("args": {{"External id": {}, "device": {}, "context": 1, "stream": {}, )"
        R"("correlation": {}{}{}}}}})",
        copies ? "gpu_memcpy" : "kernel", kineto_quoted(shown), gpu_, stream,
        kineto_time(slice.begin), kineto_time(slice.end - slice.begin), correlation_, gpu_, stream,
        correlation_, slice.label.empty() ? "" : ", \"label\": " + kineto_quoted(slice.label),
        operation.call == nullptr ? "" : communication_arguments(run_, operation)));
    end_ = max(end_, slice.end);
  }

  // If the run has one step, that step covers the whole trace.
  void add_step() {
    if (run_.experiment.scenario().execution.steps != 1) return;
    add(fmt::format(
        R"({{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#0", "pid": {}, )"
        R"("tid": {}, "ts": 0.000, "dur": {}, "args": {{"External id": 0}}}})",
        kHostProcess + rank_, kHostProcess + rank_, kineto_time(end_)));
  }

  void add_names() {
    add(fmt::format(R"({{"ph": "M", "name": "process_name", "ts": 0.000, "pid": {}, "tid": 0, )"
                    R"("args": {{"name": "shardsim"}}}})",
                    gpu_));
    add(fmt::format(R"({{"ph": "M", "name": "process_labels", "ts": 0.000, "pid": {}, "tid": 0, )"
                    R"("args": {{"labels": "GPU {}"}}}})",
                    gpu_, gpu_));
    for (const std::size_t stream : streams_) {
      add(fmt::format(R"({{"ph": "M", "name": "thread_name", "ts": 0.000, "pid": {}, "tid": {}, )"
                      R"("args": {{"name": "stream {}"}}}})",
                      gpu_, stream, stream));
    }
  }

  static constexpr int kHostProcess = 1000;  // Above all GPUs of a node.

  const RecordedRun& run_;
  int rank_;
  int gpu_;
  int correlation_ = 0;
  Time end_;
  std::set<std::size_t> streams_;
  std::string events_;
};

}  // namespace

std::string to_kineto(const RecordedRun& run, int rank) { return KinetoRank(run, rank).write(); }

}  // namespace shardsim

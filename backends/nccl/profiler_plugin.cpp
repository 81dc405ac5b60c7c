#include "backends/nccl/profiler_plugin.hpp"

#include <array>
#include <atomic>
#include <cstring>

#include <unistd.h>

namespace shardsim {

namespace {

struct FunctionCounters {
  std::atomic<std::int64_t> calls{0};
  std::atomic<std::int64_t> logical_bytes{0};
  std::atomic<std::int64_t> wire_bytes{0};
  std::atomic<std::int64_t> wire_messages{0};
};

constexpr std::array<const char*, 11> kFunctions = {
    "AllGather", "AllReduce",     "AlltoAll", "Broadcast", "Gather", "Recv",
    "Reduce",    "ReduceScatter", "Scatter",  "Send",      "other"};
constexpr std::size_t kOther = kFunctions.size() - 1;

// Handles of events are addresses in this table, of which nothing is ever freed: a call's event
// ends before the network has its data. Even bytes of an entry mean a call or a receiving proxy,
// odd ones for a sending one.
struct Entry {
  FunctionCounters counters;
  char handles[2] = {};
};
std::array<Entry, kFunctions.size()> table;  // NOLINT(*-avoid-non-const-global-variables)
std::atomic<int> num_inits{0};               // NOLINT(*-avoid-non-const-global-variables)

void* handle_of(std::size_t function, bool sends) {
  return &table[function].handles[sends ? 1 : 0];
}

struct Meaning {
  std::size_t function = kOther;
  bool sends = false;
};

Meaning meaning_of(const void* handle) {
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (handle == &table[i].handles[0]) return {i, false};
    if (handle == &table[i].handles[1]) return {i, true};
  }
  return {};
}

std::size_t function_of(const char* name) {
  for (std::size_t i = 0; name != nullptr && i < kOther; ++i) {
    if (std::strcmp(name, kFunctions[i]) == 0) return i;
  }
  return kOther;
}

std::int64_t width_of(const char* datatype) {
  const std::string name = datatype != nullptr ? datatype : "";
  if (name.find("64") != std::string::npos || name == "ncclDouble") return 8;
  if (name.find("32") != std::string::npos || name == "ncclInt" || name == "ncclFloat") return 4;
  if (name.find("16") != std::string::npos || name == "ncclHalf") return 2;
  return 1;
}

void* count_call(const char* name, std::size_t count, const char* datatype) {
  const std::size_t function = function_of(name);
  FunctionCounters& counters = table[function].counters;
  ++counters.calls;
  counters.logical_bytes += static_cast<std::int64_t>(count) * width_of(datatype);
  return handle_of(function, false);
}

NcclStatus begin(void** context, int* mask) {
  ++num_inits;
  *context = &table;
  *mask = kProfileCollective | kProfileP2p | kProfileProxyOp | kProfileProxyStep;
  return NcclStatus::success;
}

template <class Event>
NcclStatus start_event(void* /*context*/, void** handle, Event* event) {
  *handle = handle_of(kOther, false);
  switch (static_cast<int>(event->type)) {
    case kProfileCollective:
      *handle = count_call(event->collective.function, event->collective.count,
                           event->collective.datatype);
      break;
    case kProfileP2p:
      *handle = count_call(event->p2p.function, event->p2p.count, event->p2p.datatype);
      break;
    case kProfileProxyOp: {
      // The parent of another process's call is an address there.
      const bool is_ours = event->proxy_op.pid == getpid();
      const std::size_t function = is_ours ? meaning_of(event->parent).function : kOther;
      *handle = handle_of(function, event->proxy_op.is_send != 0);
      break;
    }
    case kProfileProxyStep: {
      const Meaning parent = meaning_of(event->parent);
      *handle = handle_of(parent.function, parent.sends);
      break;
    }
    default:
      break;
  }
  return NcclStatus::success;
}

NcclStatus stop_event(void* /*handle*/) { return NcclStatus::success; }

NcclStatus record_event_state(void* handle, int state, ProfilerStateArguments* arguments) {
  const Meaning step = meaning_of(handle);
  if (state == kProfileSendWait && step.sends && arguments != nullptr) {
    FunctionCounters& counters = table[step.function].counters;
    counters.wire_bytes += static_cast<std::int64_t>(arguments->transferred_bytes);
    ++counters.wire_messages;
  }
  return NcclStatus::success;
}

NcclStatus finalize(void* /*context*/) { return NcclStatus::success; }

}  // namespace

std::map<std::string, ProfiledBytes> profiled_bytes() {
  std::map<std::string, ProfiledBytes> result;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const FunctionCounters& counters = table[i].counters;
    const ProfiledBytes bytes{.calls = counters.calls,
                              .logical_bytes = counters.logical_bytes,
                              .wire_bytes = counters.wire_bytes,
                              .wire_messages = counters.wire_messages};
    if (bytes.calls != 0 || bytes.wire_messages != 0) result[kFunctions[i]] = bytes;
  }
  return result;
}

bool profiler_in_use() { return num_inits > 0; }

void reset_profiled_bytes() {
  for (Entry& entry : table) {
    entry.counters.calls = 0;
    entry.counters.logical_bytes = 0;
    entry.counters.wire_bytes = 0;
    entry.counters.wire_messages = 0;
  }
}

}  // namespace shardsim

// NOLINTBEGIN(*-avoid-non-const-global-variables)
shardsim::ProfilerPluginV4 ncclProfiler_v4 = {
    .name = "shardsim",
    .init = [](void** context, int* mask, const char*, std::uint64_t, int, int, int,
               shardsim::ProfilerLogger) { return shardsim::begin(context, mask); },
    .start_event = shardsim::start_event<shardsim::ProfilerEventV4>,
    .stop_event = shardsim::stop_event,
    .record_event_state = shardsim::record_event_state,
    .finalize = shardsim::finalize,
};

shardsim::ProfilerPluginV5 ncclProfiler_v5 = {
    .name = "shardsim",
    .init = [](void** context, std::uint64_t, int* mask, const char*, int, int, int,
               shardsim::ProfilerLogger) { return shardsim::begin(context, mask); },
    .start_event = shardsim::start_event<shardsim::ProfilerEventV5>,
    .stop_event = shardsim::stop_event,
    .record_event_state = shardsim::record_event_state,
    .finalize = shardsim::finalize,
};
// NOLINTEND(*-avoid-non-const-global-variables)

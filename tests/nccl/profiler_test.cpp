#include <thread>
#include <vector>

#include <catch2/catch.hpp>
#include <dlfcn.h>
#include <unistd.h>

#include "backends/nccl/profiler_plugin.hpp"

namespace shardsim {
namespace {

// Calls the plugin as NCCL does for one call whose data goes over sockets.
template <class Plugin, class Event>
void play(const Plugin& plugin, void* context, const char* function, std::size_t count,
          const std::vector<std::size_t>& steps, bool sends, pid_t pid = getpid()) {
  Event call{};
  call.type = kProfileCollective;
  call.collective.function = function;
  call.collective.count = count;
  call.collective.datatype = "ncclBfloat16";
  void* call_handle = nullptr;
  REQUIRE(plugin.start_event(context, &call_handle, &call) == NcclStatus::success);
  REQUIRE(call_handle != nullptr);
  REQUIRE(plugin.stop_event(call_handle) == NcclStatus::success);  // Ends before its data goes.
  Event op{};
  op.type = kProfileProxyOp;
  op.parent = call_handle;
  op.proxy_op.pid = pid;
  op.proxy_op.is_send = sends ? 1 : 0;
  void* op_handle = nullptr;
  plugin.start_event(context, &op_handle, &op);
  for (const std::size_t bytes : steps) {
    Event step{};
    step.type = kProfileProxyStep;
    step.parent = op_handle;
    void* step_handle = nullptr;
    plugin.start_event(context, &step_handle, &step);
    REQUIRE(step_handle != nullptr);
    ProfilerStateArguments arguments{.transferred_bytes = bytes};
    plugin.record_event_state(step_handle, 8, &arguments);  // Waits for the GPU.
    plugin.record_event_state(step_handle, kProfileSendWait, &arguments);
    plugin.stop_event(step_handle);
  }
  plugin.stop_event(op_handle);
}

}  // namespace

TEST_CASE("NCCL finds the profiler plugins among the symbols of this program") {
  void* program = dlopen(nullptr, RTLD_NOW | RTLD_LOCAL);  // As NCCL opens STATIC_PLUGIN.
  REQUIRE(program != nullptr);
  CHECK(dlsym(program, "ncclProfiler_v4") == &ncclProfiler_v4);
  CHECK(dlsym(program, "ncclProfiler_v5") == &ncclProfiler_v5);
}

TEST_CASE("the profiler plugins count calls, their bytes, and what their sends put on the wire") {
  reset_profiled_bytes();
  void* context = nullptr;
  int mask = 0;
  REQUIRE(ncclProfiler_v5.init(&context, 1, &mask, "world", 2, 2, 0, nullptr) ==
          NcclStatus::success);
  CHECK(context != nullptr);
  CHECK(mask == (1 << 1 | 1 << 2 | 1 << 3 | 1 << 4));
  CHECK(profiler_in_use());
  play<ProfilerPluginV5, ProfilerEventV5>(ncclProfiler_v5, context, "AllReduce", 100, {64, 36},
                                          true);
  play<ProfilerPluginV5, ProfilerEventV5>(ncclProfiler_v5, context, "AllReduce", 100, {1000},
                                          false);
  play<ProfilerPluginV4, ProfilerEventV4>(ncclProfiler_v4, context, "Reduce", 7, {14}, true);
  // On behalf of another process: its handle means nothing here.
  play<ProfilerPluginV5, ProfilerEventV5>(ncclProfiler_v5, context, "Broadcast", 1, {5}, true,
                                          getpid() + 1);
  play<ProfilerPluginV5, ProfilerEventV5>(ncclProfiler_v5, context, "NotYetKnown", 2, {}, true);
  ncclProfiler_v5.finalize(context);
  const auto found = profiled_bytes();
  CHECK(found.size() == 4);
  CHECK(found.at("AllReduce").calls == 2);
  CHECK(found.at("AllReduce").logical_bytes == 400);
  CHECK(found.at("AllReduce").wire_bytes == 100);
  CHECK(found.at("AllReduce").wire_messages == 2);
  CHECK(found.at("Reduce").logical_bytes == 14);
  CHECK(found.at("Reduce").wire_bytes == 14);
  CHECK(found.at("Broadcast").wire_bytes == 0);
  CHECK(found.at("other").wire_bytes == 5);
  CHECK(found.at("other").calls == 1);
  reset_profiled_bytes();
  CHECK(profiled_bytes().empty());
}

TEST_CASE("the profiler plugin counts point-to-point calls, of all types' widths") {
  reset_profiled_bytes();
  const std::vector<std::pair<const char*, std::int64_t>> widths = {
      {"ncclInt8", 1},    {"ncclUint8", 1},   {"ncclInt32", 4},   {"ncclInt64", 8},
      {"ncclFloat16", 2}, {"ncclFloat32", 4}, {"ncclFloat64", 8}, {"ncclBfloat16", 2}};
  std::int64_t expected = 0;
  for (const auto& [name, width] : widths) {
    ProfilerEventV5 event{};
    event.type = kProfileP2p;
    event.p2p.function = "Send";
    event.p2p.datatype = name;
    event.p2p.count = 10;
    void* handle = nullptr;
    ncclProfiler_v5.start_event(nullptr, &handle, &event);
    expected += 10 * width;
    CHECK(profiled_bytes().at("Send").logical_bytes == expected);
  }
  reset_profiled_bytes();
}

TEST_CASE("the profiler plugin is called from many threads at once") {
  reset_profiled_bytes();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int round = 0; round < 2000; ++round) {
        ProfilerEventV5 event{};
        event.type = kProfileCollective;
        event.collective.function = "AllGather";
        event.collective.datatype = "ncclInt8";
        event.collective.count = 3;
        void* handle = nullptr;
        ncclProfiler_v5.start_event(nullptr, &handle, &event);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(profiled_bytes().at("AllGather").calls == 8000);
  CHECK(profiled_bytes().at("AllGather").logical_bytes == 24000);
  reset_profiled_bytes();
}

}  // namespace shardsim

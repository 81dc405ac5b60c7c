#include <algorithm>
#include <cstring>

#include "tests/nccl/stand_in/machine.hpp"

// The CUDA runtime's functions. Everything on a stream happens later than the call.
namespace {

using namespace shardsim;
using namespace shardsim::stand_in;

constexpr auto kFailure = static_cast<CudaStatus>(999);  // cudaErrorUnknown.

CudaStatus answer(const char* function) {
  return machine().script.failing_cuda_function == function ? kFailure : CudaStatus::success;
}

// Work on the stream of a communicator in progress would get between what it still puts there.
bool usable(CudaStream stream, const char* function) {
  if (stream == nullptr || !stream->alive) {
    machine().violate(std::string(function) + ": a stream that does not exist");
    return false;
  }
  NcclComm comm = stream->comm;
  if (comm != nullptr && comm->alive &&
      (comm->polls_left > 0 || comm->waits != NcclCommObject::Waits::nothing)) {
    machine().violate(std::string(function) + ": its communicator is in progress");
  }
  return true;
}

bool usable(CudaEvent event, const char* function) {
  if (event != nullptr && event->alive) return true;
  machine().violate(std::string(function) + ": an event that does not exist");
  return false;
}

// Whether anything that has not happened yet fulfils `is_meant`.
template <class Condition>
bool pending(const Condition& is_meant) {
  const auto& streams = machine().streams;
  return std::any_of(streams.begin(), streams.end(), [&](const auto& stream) {
    return std::any_of(stream->tasks.begin(), stream->tasks.end(), is_meant);
  });
}

bool touches(const Task& task, const std::vector<std::byte>& memory) {
  const auto inside = [&](const std::byte* place) {
    return place != nullptr && place >= memory.data() && place < memory.data() + memory.size();
  };
  if (inside(task.from) || inside(task.to)) return true;
  return task.kernel &&
         std::any_of(task.kernel->calls.begin(), task.kernel->calls.end(),
                     [&](const DeviceCall& call) { return inside(call.from) || inside(call.to); });
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the names are theirs.
SHARDSIM_EXPORT CudaStatus cudaGetDeviceCount(int* count) {
  *count = machine().script.num_devices;
  return machine().script.device_count_status;
}

SHARDSIM_EXPORT CudaStatus cudaDriverGetVersion(int* version) {
  *version = machine().script.driver_version;
  return CudaStatus::success;
}

SHARDSIM_EXPORT CudaStatus cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return CudaStatus::success;
}

SHARDSIM_EXPORT CudaStatus cudaGetDeviceProperties(CudaDeviceProperties* properties, int device) {
  std::strncpy(properties->name, device < 2 ? "Stand-in A" : "Stand-in B",
               sizeof(properties->name));
  return CudaStatus::success;
}

SHARDSIM_EXPORT CudaStatus cudaSetDevice(int device) {
  if (device < 0 || device >= machine().script.num_devices) {
    machine().violate("cudaSetDevice: no such device");
  }
  return answer("cudaSetDevice");
}

SHARDSIM_EXPORT CudaStatus cudaMalloc(void** pointer, std::size_t bytes) {
  // Memory that nobody has written is not zero.
  std::vector<std::byte> memory(bytes, std::byte{0xA5});
  std::byte* place = memory.data();
  machine().memory[place] = std::move(memory);
  *pointer = place;
  return answer("cudaMalloc");
}

SHARDSIM_EXPORT CudaStatus cudaFree(void* pointer) {
  auto& memory = machine().memory;
  const auto it = memory.find(static_cast<std::byte*>(pointer));
  if (it == memory.end()) {
    machine().violate("cudaFree: memory that does not exist");
    return kFailure;
  }
  machine().go_on();
  if (pending([&](const Task& task) { return touches(task, it->second); })) {
    machine().violate("cudaFree: memory in use");
  }
  memory.erase(it);
  return answer("cudaFree");
}

SHARDSIM_EXPORT CudaStatus cudaMemcpyAsync(void* to, const void* from, std::size_t bytes,
                                           CudaCopyKind kind, CudaStream stream) {
  if (!usable(stream, "cudaMemcpyAsync")) return kFailure;
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  const bool sound = machine().owns(target, bytes) == (kind == CudaCopyKind::host_to_device) &&
                     machine().owns(source, bytes) == (kind == CudaCopyKind::device_to_host);
  if (!sound) {
    machine().violate("cudaMemcpyAsync: not the memory that the direction says");
    return kFailure;
  }
  stream->tasks.push_back({.kind = Task::Kind::copy, .to = target, .from = source, .bytes = bytes});
  return answer("cudaMemcpyAsync");
}

SHARDSIM_EXPORT CudaStatus cudaStreamCreateWithFlags(CudaStream* stream, unsigned int flags) {
  if (flags != kCudaStreamNonBlocking) {
    machine().violate("cudaStreamCreateWithFlags: waits for the default stream");
  }
  machine().streams.push_back(std::make_unique<CudaStreamObject>());
  *stream = machine().streams.back().get();
  return answer("cudaStreamCreateWithFlags");
}

SHARDSIM_EXPORT CudaStatus cudaStreamDestroy(CudaStream stream) {
  if (!usable(stream, "cudaStreamDestroy")) return kFailure;
  machine().go_on();
  if (!stream->tasks.empty()) machine().violate("cudaStreamDestroy: something is still on it");
  stream->alive = false;
  return answer("cudaStreamDestroy");
}

SHARDSIM_EXPORT CudaStatus cudaStreamWaitEvent(CudaStream stream, CudaEvent event,
                                               unsigned int flags) {
  if (!usable(stream, "cudaStreamWaitEvent") || !usable(event, "cudaStreamWaitEvent") ||
      flags != 0) {
    return kFailure;
  }
  if (event->recorded == 0) machine().violate("cudaStreamWaitEvent: never recorded");
  stream->tasks.push_back({.kind = Task::Kind::wait, .event = event, .number = event->recorded});
  return answer("cudaStreamWaitEvent");
}

SHARDSIM_EXPORT CudaStatus cudaEventCreateWithFlags(CudaEvent* event, unsigned int /*flags*/) {
  machine().events.push_back(std::make_unique<CudaEventObject>());
  *event = machine().events.back().get();
  return answer("cudaEventCreateWithFlags");
}

SHARDSIM_EXPORT CudaStatus cudaEventDestroy(CudaEvent event) {
  if (!usable(event, "cudaEventDestroy")) return kFailure;
  machine().go_on();
  if (pending([&](const Task& task) { return task.event == event; })) {
    machine().violate("cudaEventDestroy: a stream still needs it");
  }
  event->alive = false;
  return answer("cudaEventDestroy");
}

SHARDSIM_EXPORT CudaStatus cudaEventRecord(CudaEvent event, CudaStream stream) {
  if (!usable(stream, "cudaEventRecord") || !usable(event, "cudaEventRecord")) return kFailure;
  if (event->done < event->recorded) {
    machine().violate("cudaEventRecord: somebody still waits for its last record");
  }
  stream->tasks.push_back(
      {.kind = Task::Kind::record, .event = event, .number = ++event->recorded});
  return answer("cudaEventRecord");
}

SHARDSIM_EXPORT CudaStatus cudaEventQuery(CudaEvent event) {
  if (!usable(event, "cudaEventQuery")) return kFailure;
  machine().go_on();
  if (answer("cudaEventQuery") != CudaStatus::success) return kFailure;
  return event->done < event->recorded ? CudaStatus::not_ready : CudaStatus::success;
}

SHARDSIM_EXPORT const char* cudaGetErrorName(CudaStatus status) {
  return status == kFailure ? "cudaErrorUnknown" : "cudaErrorOfStandIn";
}

SHARDSIM_EXPORT const char* cudaGetErrorString(CudaStatus /*status*/) { return "as scripted"; }
// NOLINTEND(readability-identifier-naming)

#include <algorithm>
#include <string>

#include "tests/nccl/stand_in/machine.hpp"

// NCCL's functions, all of non-blocking communicators.
namespace {

using namespace shardsim;
using namespace shardsim::stand_in;
using Kind = DeviceCall::Kind;
using Waits = NcclCommObject::Waits;

void note(NcclComm comm, const std::string& text) {
  machine().calls.push_back(std::to_string(comm == nullptr ? -1 : comm->rank) + " " + text);
}

bool in_progress(NcclComm comm) { return comm->polls_left > 0 || comm->waits != Waits::nothing; }

// No call but questions and the abort may be made of a communicator that is in progress, or gone.
bool usable(NcclComm comm, const char* function) {
  if (comm == nullptr || !comm->alive) {
    machine().violate(std::string(function) + ": a communicator that does not exist");
    return false;
  }
  if (in_progress(comm)) {
    machine().violate(std::string(function) + ": the communicator is in progress");
  }
  if (comm->finalized) machine().violate(std::string(function) + ": after ncclCommFinalize");
  return true;
}

bool is_busy(NcclComm comm) {
  if (!comm->enqueued.empty()) return true;
  const auto& streams = machine().streams;
  return std::any_of(streams.begin(), streams.end(), [&](const auto& stream) {
    return std::any_of(stream->tasks.begin(), stream->tasks.end(),
                       [&](const Task& task) { return task.kernel && task.kernel->comm == comm; });
  });
}

void launch(CudaStream stream, const std::shared_ptr<Kernel>& kernel) {
  for (DeviceCall& call : kernel->calls) call.kernel = kernel.get();
  kernel->left = kernel->calls.size();
  stream->comm = kernel->comm;
  kernel->comm->enqueued.emplace_back(stream, kernel);
  kernel->comm->polls_left = machine().script.polls_in_progress;
}

bool is_place(const void* place, std::size_t count, NcclDataType type) {
  return count == 0 || machine().owns(static_cast<const std::byte*>(place), count * width_of(type));
}

std::string name_of(const DeviceCall& call) {
  constexpr const char* kNames[] = {"ncclAllReduce", "ncclReduceScatter", "ncclAllGather",
                                    "ncclBroadcast", "ncclReduce",        "ncclSend",
                                    "ncclRecv"};
  return kNames[static_cast<std::size_t>(call.kind)];
}

// `sent` and `received`: elements that are read and written.
NcclStatus take(const DeviceCall& call, std::size_t sent, std::size_t received, NcclComm comm,
                CudaStream stream) {
  const std::string name = name_of(call);
  if (!usable(comm, name.c_str())) return NcclStatus::invalid_argument;
  note(comm, name + " count=" + std::to_string(call.count) +
                 " type=" + std::to_string(static_cast<unsigned>(call.type)) +
                 " op=" + std::to_string(static_cast<unsigned>(call.op)) +
                 " peer=" + std::to_string(call.peer));
  if (machine().script.failing_nccl_function == name) return NcclStatus::invalid_argument;
  const auto size = static_cast<int>(comm->group->members.size());
  if (stream == nullptr || !stream->alive) machine().violate(name + ": no stream");
  if (call.peer >= size || (call.peer < 0 && call.kind >= Kind::broadcast)) {
    machine().violate(name + ": no such rank");
    return NcclStatus::invalid_argument;
  }
  if (!is_place(call.from, sent, call.type) || !is_place(call.to, received, call.type)) {
    machine().violate(name + ": not device memory, or too little");
    return NcclStatus::invalid_argument;
  }
  Machine& all = machine();
  const bool alone = all.group_depth == 0;
  if (alone && call.kind >= Kind::send && call.peer == comm->rank) {
    all.violate(name + ": to itself, without its other half in a group");
  }
  if (alone || all.grouped.empty()) {
    all.grouped.emplace_back(stream, std::make_shared<Kernel>());
    all.grouped.back().second->comm = comm;
  }
  auto& [group_stream, kernel] = all.grouped.back();
  if (kernel->comm != comm || group_stream != stream) {
    all.violate(name + ": several communicators or streams in a group");
  }
  kernel->calls.push_back(call);
  if (!alone) return NcclStatus::success;
  launch(stream, kernel);
  all.grouped.clear();
  return in_progress(comm) ? NcclStatus::in_progress : NcclStatus::success;
}

void finish_split(NcclComm comm) {
  const std::vector<Group::Choice>& choices = comm->group->splits[comm->num_splits - 1];
  const auto own = std::find_if(choices.begin(), choices.end(),
                                [&](const Group::Choice& each) { return each.rank == comm->rank; });
  if (own->color < 0) return;  // NCCL_SPLIT_NOCOLOR: no communicator is made.
  std::vector<Group::Choice> mine;
  for (const Group::Choice& each : choices) {
    if (each.color == own->color) mine.push_back(each);
  }
  std::sort(mine.begin(), mine.end(), [](const Group::Choice& a, const Group::Choice& b) {
    return std::pair(a.key, a.rank) < std::pair(b.key, b.rank);
  });
  const std::string id = std::to_string(reinterpret_cast<std::uintptr_t>(comm->group.get())) + "/" +
                         std::to_string(comm->num_splits) + "/" + std::to_string(own->color);
  std::shared_ptr<Group>& part = machine().groups[id];
  if (!part) part = std::make_shared<Group>(mine.size());
  for (std::size_t i = 0; i < mine.size(); ++i) {
    if (mine[i].rank != comm->rank) continue;
    NcclComm made = machine().make_comm(part, static_cast<int>(i));
    made->waits = Waits::members;
    part->members[i] = made;
    *own->result = made;
  }
}

bool has_come(NcclComm comm) {
  const Group& group = *comm->group;
  switch (comm->waits) {
    case Waits::nothing:
      return true;
    case Waits::members:
      return group.complete();
    case Waits::split:
      return group.splits[comm->num_splits - 1].size() == group.members.size();
    case Waits::end:
      return !is_busy(comm) &&
             std::all_of(group.members.begin(), group.members.end(),
                         [](NcclComm each) { return each != nullptr && each->finalized; });
  }
  return true;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the names are theirs.
SHARDSIM_EXPORT NcclStatus ncclGetVersion(int* version) {
  *version = machine().script.version;
  return NcclStatus::success;
}

SHARDSIM_EXPORT NcclStatus ncclGetUniqueId(NcclUniqueId* id) {
  *id = {};
  const std::string text = "id " + std::to_string(machine().num_ids++);
  std::copy(text.begin(), text.end(), id->bytes);
  id->bytes[127] = '\x9f';  // All of it matters.
  note(nullptr, "ncclGetUniqueId");
  return NcclStatus::success;
}

SHARDSIM_EXPORT NcclStatus ncclCommInitRankConfig(NcclComm* comm, int size, NcclUniqueId id,
                                                  int rank, NcclConfig* config) {
  Machine& all = machine();
  note(nullptr,
       "ncclCommInitRankConfig size=" + std::to_string(size) + " rank=" + std::to_string(rank));
  if (config->size != sizeof(NcclConfig) || config->magic != 0xcafebeef || config->blocking != 0 ||
      config->split_share != 0 || id.bytes[127] != '\x9f' || all.group_depth != 0) {
    all.violate("ncclCommInitRankConfig: not the configuration or the id");
  }
  if (all.script.init_status != NcclStatus::success) return all.script.init_status;
  std::shared_ptr<Group>& group = all.groups[std::string(id.bytes, sizeof(id.bytes))];
  if (!group) group = std::make_shared<Group>(static_cast<std::size_t>(size));
  NcclComm made = all.make_comm(group, rank);
  made->waits = Waits::members;
  if (rank != all.script.missing_rank) group->members.at(static_cast<std::size_t>(rank)) = made;
  *comm = made;
  return NcclStatus::in_progress;
}

SHARDSIM_EXPORT NcclStatus ncclCommSplit(NcclComm parent, int color, int key, NcclComm* comm,
                                         NcclConfig* config) {
  if (!usable(parent, "ncclCommSplit")) return NcclStatus::invalid_argument;
  note(parent, "ncclCommSplit color=" + std::to_string(color) + " key=" + std::to_string(key));
  if (config->blocking != 0 || config->split_share != 0) machine().violate("ncclCommSplit: config");
  if (is_busy(parent)) machine().violate("ncclCommSplit: operations are under way");
  auto& splits = parent->group->splits;
  if (splits.size() <= parent->num_splits) splits.resize(parent->num_splits + 1);
  auto& choices = splits[parent->num_splits++];
  if (parent->rank != machine().script.missing_rank) {
    choices.push_back({color, key, parent->rank, comm});
  }
  parent->waits = Waits::split;
  parent->polls_left = machine().script.polls_in_progress;
  return NcclStatus::in_progress;
}

SHARDSIM_EXPORT NcclStatus ncclCommGetAsyncError(NcclComm comm, NcclStatus* status) {
  if (comm == nullptr || !comm->alive) {
    machine().violate("ncclCommGetAsyncError: a communicator that does not exist");
    return NcclStatus::invalid_argument;
  }
  machine().go_on();
  *status = comm->error;
  if (comm->error != NcclStatus::success) return NcclStatus::success;
  if (comm->polls_left > 0) {
    --comm->polls_left;
  } else if (has_come(comm)) {
    if (comm->waits == Waits::split) finish_split(comm);
    comm->waits = Waits::nothing;
    for (auto& [stream, kernel] : comm->enqueued) {
      stream->tasks.push_back({.kind = Task::Kind::kernel, .kernel = kernel});
    }
    comm->enqueued.clear();
  }
  if (in_progress(comm) || !comm->enqueued.empty()) *status = NcclStatus::in_progress;
  return NcclStatus::success;
}

SHARDSIM_EXPORT NcclStatus ncclCommFinalize(NcclComm comm) {
  if (!usable(comm, "ncclCommFinalize")) return NcclStatus::invalid_argument;
  note(comm, "ncclCommFinalize");
  comm->finalized = true;
  comm->waits = Waits::end;
  return NcclStatus::in_progress;
}

SHARDSIM_EXPORT NcclStatus ncclCommDestroy(NcclComm comm) {
  note(comm, "ncclCommDestroy");
  if (comm == nullptr || !comm->alive || !comm->finalized || in_progress(comm)) {
    machine().violate("ncclCommDestroy: not finalized, or not at rest");
    return NcclStatus::invalid_argument;
  }
  comm->alive = false;
  return NcclStatus::success;
}

SHARDSIM_EXPORT NcclStatus ncclCommAbort(NcclComm comm) {
  note(comm, "ncclCommAbort");
  if (comm == nullptr || !comm->alive) machine().violate("ncclCommAbort: of none");
  if (machine().group_depth != 0) machine().violate("ncclCommAbort: a group is open");
  comm->alive = false;
  return NcclStatus::success;
}

SHARDSIM_EXPORT NcclStatus ncclCommCount(NcclComm comm, int* count) {
  if (!usable(comm, "ncclCommCount")) return NcclStatus::invalid_argument;
  *count = static_cast<int>(comm->group->members.size());
  return NcclStatus::success;
}

SHARDSIM_EXPORT NcclStatus ncclCommUserRank(NcclComm comm, int* rank) {
  if (!usable(comm, "ncclCommUserRank")) return NcclStatus::invalid_argument;
  *rank = comm->rank;
  return NcclStatus::success;
}

SHARDSIM_EXPORT const char* ncclGetErrorString(NcclStatus status) {
  return status == NcclStatus::remote_error ? "remote process exited or there was a network error"
                                            : "an error of the stand-in";
}

SHARDSIM_EXPORT const char* ncclGetLastError(NcclComm /*comm*/) { return "scripted"; }

SHARDSIM_EXPORT NcclStatus ncclGroupStart() {
  ++machine().group_depth;
  return NcclStatus::success;
}

SHARDSIM_EXPORT NcclStatus ncclGroupEnd() {
  Machine& all = machine();
  if (all.group_depth == 0) {
    all.violate("ncclGroupEnd: no group is open");
    return NcclStatus::invalid_usage;
  }
  if (--all.group_depth > 0 || all.grouped.empty()) return NcclStatus::success;
  const auto [stream, kernel] = all.grouped.back();
  all.grouped.clear();
  launch(stream, kernel);
  return in_progress(kernel->comm) ? NcclStatus::in_progress : NcclStatus::success;
}

#ifndef SHARDSIM_STAND_IN_WITHOUT_ALL_REDUCE
SHARDSIM_EXPORT NcclStatus ncclAllReduce(const void* send, void* receive, std::size_t count,
                                         NcclDataType type, NcclReduceOp op, NcclComm comm,
                                         CudaStream stream) {
  return take({Kind::all_reduce, static_cast<const std::byte*>(send),
               static_cast<std::byte*>(receive), count, type, op, -1},
              count, count, comm, stream);
}
#endif

SHARDSIM_EXPORT NcclStatus ncclReduceScatter(const void* send, void* receive, std::size_t count,
                                             NcclDataType type, NcclReduceOp op, NcclComm comm,
                                             CudaStream stream) {
  return take({Kind::reduce_scatter, static_cast<const std::byte*>(send),
               static_cast<std::byte*>(receive), count, type, op, -1},
              count * comm->group->members.size(), count, comm, stream);
}

SHARDSIM_EXPORT NcclStatus ncclAllGather(const void* send, void* receive, std::size_t count,
                                         NcclDataType type, NcclComm comm, CudaStream stream) {
  return take({Kind::all_gather, static_cast<const std::byte*>(send),
               static_cast<std::byte*>(receive), count, type, NcclReduceOp::sum, -1},
              count, count * comm->group->members.size(), comm, stream);
}

SHARDSIM_EXPORT NcclStatus ncclBroadcast(const void* send, void* receive, std::size_t count,
                                         NcclDataType type, int root, NcclComm comm,
                                         CudaStream stream) {
  return take({Kind::broadcast, static_cast<const std::byte*>(send),
               static_cast<std::byte*>(receive), count, type, NcclReduceOp::sum, root},
              count, count, comm, stream);
}

SHARDSIM_EXPORT NcclStatus ncclReduce(const void* send, void* receive, std::size_t count,
                                      NcclDataType type, NcclReduceOp op, int root, NcclComm comm,
                                      CudaStream stream) {
  return take({Kind::reduce, static_cast<const std::byte*>(send), static_cast<std::byte*>(receive),
               count, type, op, root},
              count, count, comm, stream);
}

SHARDSIM_EXPORT NcclStatus ncclSend(const void* send, std::size_t count, NcclDataType type,
                                    int peer, NcclComm comm, CudaStream stream) {
  return take({Kind::send, static_cast<const std::byte*>(send), nullptr, count, type,
               NcclReduceOp::sum, peer},
              count, 0, comm, stream);
}

SHARDSIM_EXPORT NcclStatus ncclRecv(void* receive, std::size_t count, NcclDataType type, int peer,
                                    NcclComm comm, CudaStream stream) {
  return take({Kind::receive, nullptr, static_cast<std::byte*>(receive), count, type,
               NcclReduceOp::sum, peer},
              0, count, comm, stream);
}
// NOLINTEND(readability-identifier-naming)

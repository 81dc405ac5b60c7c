#include "tests/nccl/stand_in/machine.hpp"

#include <algorithm>
#include <cstring>

#include <dlfcn.h>

namespace shardsim::stand_in {

namespace {

std::unique_ptr<Machine>& only() {
  static auto instance = std::make_unique<Machine>();
  return instance;
}

}  // namespace

Machine& machine() { return *only(); }
void reset() { only() = std::make_unique<Machine>(); }
Script& script() { return machine().script; }
const std::vector<std::string>& calls() { return machine().calls; }
const std::vector<std::string>& violations() { return machine().violations; }

Live live() {
  const auto count = [](const auto& all) {
    return static_cast<int>(
        std::count_if(all.begin(), all.end(), [](const auto& each) { return each->alive; }));
  };
  const Machine& all = machine();
  return {.allocations = static_cast<int>(all.memory.size()),
          .streams = count(all.streams),
          .events = count(all.events),
          .communicators = count(all.comms)};
}

std::string path() {
  Dl_info info{};
  dladdr(reinterpret_cast<const void*>(&machine), &info);
  return info.dli_fname;
}

bool Group::complete() const {
  return std::none_of(members.begin(), members.end(), [](NcclComm each) { return !each; });
}

bool Machine::owns(const std::byte* place, std::size_t bytes) const {
  return std::any_of(memory.begin(), memory.end(), [&](const auto& each) {
    return place >= each.first && place + bytes <= each.first + each.second.size();
  });
}

NcclComm Machine::make_comm(std::shared_ptr<Group> group, int rank) {
  comms.push_back(std::make_unique<NcclCommObject>());
  NcclComm comm = comms.back().get();
  comm->group = std::move(group);
  comm->rank = rank;
  comm->polls_left = script.polls_in_progress;
  return comm;
}

void Machine::go_on() {
  bool moved = true;
  while (moved) {
    moved = false;
    for (const auto& stream : streams) moved |= step(*stream);
  }
}

bool Machine::step(CudaStreamObject& stream) {
  if (stream.tasks.empty()) return false;
  Task& task = stream.tasks.front();
  switch (task.kind) {
    case Task::Kind::copy:
      std::memcpy(task.to, task.from, task.bytes);
      break;
    case Task::Kind::record:
      task.event->done = std::max(task.event->done, task.number);
      break;
    case Task::Kind::wait:
      if (task.event->done < task.number) return false;
      break;
    case Task::Kind::kernel:
      if (!task.kernel->arrived) arrive(*task.kernel);
      if (task.kernel->left > 0) return false;
      break;
  }
  stream.tasks.pop_front();
  return true;
}

void Machine::arrive(Kernel& kernel) {
  kernel.arrived = true;
  const int number = num_kernels++;
  if (script.kernels_before_error >= 0 && number >= script.kernels_before_error) {
    kernel.comm->error = script.asynchronous_error;
    return;
  }
  if (script.kernels_before_hang >= 0 && number >= script.kernels_before_hang) return;
  Group& group = *kernel.comm->group;
  for (DeviceCall& call : kernel.calls) {
    const int self = kernel.comm->rank;
    if (call.kind == DeviceCall::Kind::send) {
      group.sends[{self, call.peer}].push_back(&call);
    } else if (call.kind == DeviceCall::Kind::receive) {
      group.receives[{call.peer, self}].push_back(&call);
    } else {
      group.collectives[static_cast<std::size_t>(self)].push_back(&call);
    }
  }
  meet(group);
}

void Machine::meet(Group& group) {
  const auto carry_out_one = [&](const std::vector<DeviceCall*>& together) {
    if (!agree(together)) {
      group.stuck = true;
      return;
    }
    carry_out(together);
    for (DeviceCall* call : together) --call->kernel->left;
  };
  const auto all_there = [&] {
    return std::none_of(group.collectives.begin(), group.collectives.end(),
                        [](const auto& each) { return each.empty(); });
  };
  while (!group.stuck && all_there()) {
    std::vector<DeviceCall*> together;
    for (auto& each : group.collectives) {
      together.push_back(each.front());
      each.pop_front();
    }
    carry_out_one(together);
  }
  for (auto& [route, sends] : group.sends) {
    auto& receives = group.receives[route];
    while (!group.stuck && !sends.empty() && !receives.empty()) {
      const std::vector<DeviceCall*> together = {sends.front(), receives.front()};
      sends.pop_front();
      receives.pop_front();
      carry_out_one(together);
    }
  }
}

}  // namespace shardsim::stand_in

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/nccl/stand_in/stand_in.hpp"

// The stand-in is one machine with the streams, memory and communicators of all ranks. It goes on
// whenever somebody asks.
// A function that the library of that name exports.
#define SHARDSIM_EXPORT extern "C" __attribute__((visibility("default")))

namespace shardsim {

struct CudaEventObject {
  bool alive = true;
  int recorded = 0;  // How often; a record is known by its number.
  int done = 0;
};

namespace stand_in {

struct DeviceCall {
  enum class Kind : std::uint8_t {
    all_reduce,
    reduce_scatter,
    all_gather,
    broadcast,
    reduce,
    send,
    receive,
  };
  Kind kind;
  const std::byte* from;
  std::byte* to;
  std::size_t count;
  NcclDataType type;
  NcclReduceOp op;
  int peer;  // Or root.
  struct Kernel* kernel = nullptr;
};

/// The work that one launch, of a group or of a single call, puts on a stream.
struct Kernel {
  NcclComm comm = nullptr;
  std::vector<DeviceCall> calls;
  std::size_t left = 0;
  bool arrived = false;
};

struct Task {
  enum class Kind : std::uint8_t { copy, record, wait, kernel };
  Kind kind = Kind::copy;
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
  CudaEvent event = nullptr;
  int number = 0;
  std::shared_ptr<Kernel> kernel;
};

/// Those who share a communicator.
struct Group {
  std::vector<NcclComm> members;  // Null: has not come yet.
  std::vector<std::deque<DeviceCall*>> collectives;
  std::map<std::pair<int, int>, std::deque<DeviceCall*>> sends;  // By sender and receiver.
  std::map<std::pair<int, int>, std::deque<DeviceCall*>> receives;
  struct Choice {
    int color;
    int key;
    int rank;
    NcclComm* result;
  };
  std::vector<std::vector<Choice>> splits;
  bool stuck = false;  // Members disagree: NCCL would hang, or worse.

  explicit Group(std::size_t size) : members(size), collectives(size) {}
  [[nodiscard]] bool complete() const;
};

}  // namespace stand_in

struct CudaStreamObject {
  bool alive = true;
  std::deque<stand_in::Task> tasks;
  NcclComm comm = nullptr;  // That has used it.
};

struct NcclCommObject {
  bool alive = true;
  std::shared_ptr<stand_in::Group> group;
  int rank = 0;
  NcclStatus error = NcclStatus::success;
  int polls_left = 0;
  enum class Waits : std::uint8_t { nothing, members, split, end } waits = Waits::nothing;
  std::size_t num_splits = 0;
  bool finalized = false;
  std::deque<std::pair<CudaStream, std::shared_ptr<stand_in::Kernel>>> enqueued;
};

namespace stand_in {

struct Machine {
  Script script;
  std::vector<std::string> calls;
  std::vector<std::string> violations;
  std::vector<std::unique_ptr<CudaStreamObject>> streams;
  std::vector<std::unique_ptr<CudaEventObject>> events;
  std::vector<std::unique_ptr<NcclCommObject>> comms;
  std::map<std::byte*, std::vector<std::byte>> memory;
  std::map<std::string, std::shared_ptr<Group>> groups;  // By unique id.
  int num_ids = 0;
  int num_kernels = 0;
  // The group of calls that is open.
  int group_depth = 0;
  std::vector<std::pair<CudaStream, std::shared_ptr<Kernel>>> grouped;

  void violate(const std::string& what) { violations.push_back(what); }
  /// Whether all of [place, place + bytes) is device memory.
  [[nodiscard]] bool owns(const std::byte* place, std::size_t bytes) const;
  /// Everything that can go on without anybody's doing.
  void go_on();
  void arrive(Kernel& kernel);
  NcclComm make_comm(std::shared_ptr<Group> group, int rank);

 private:
  bool step(CudaStreamObject& stream);
  void meet(Group& group);
};

/// All of a communicator's members have posted the call: it is carried out.
void carry_out(const std::vector<DeviceCall*>& members);
/// Whether they belong together: type, counts, operation, root.
[[nodiscard]] bool agree(const std::vector<DeviceCall*>& members);
[[nodiscard]] std::size_t width_of(NcclDataType type);

[[nodiscard]] Machine& machine();

}  // namespace stand_in

}  // namespace shardsim

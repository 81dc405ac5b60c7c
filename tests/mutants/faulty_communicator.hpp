#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "backends/communicator.hpp"

// Plants bugs between strategies and the network, so that tests can see what finds them.
namespace shardsim::test {

/// The caller: the communicator that the call was meant for, the rank's number among all ranks, and
/// the communicator of all ranks. Both communicators are without the bugs.
struct Caller {
  Communicator& to;
  int world_rank;
  Communicator& world;
};

/// Changes to calls. A function left empty lets its calls pass unchanged. A function may change the
/// arguments, call something else, or call nothing. All ranks share the functions.
struct Faults {
  std::function<Work(const Caller&, const Tensor& buffer, ReduceOp, const CallOptions&, CallSite)>
      all_reduce;
  std::function<Work(const Caller&, const Tensor& output, const Tensor& input, ReduceOp,
                     const CallOptions&, CallSite)>
      reduce_scatter;
  std::function<Work(const Caller&, const Tensor& output, const Tensor& input, const CallOptions&,
                     CallSite)>
      all_gather;
  std::function<Work(const Caller&, const Tensor& output, const Tensor& input,
                     std::span<const std::int64_t> send_counts,
                     std::span<const std::int64_t> recv_counts, const CallOptions&, CallSite)>
      all_to_all;
  std::function<Work(const Caller&, std::span<const P2pOp>, const CallOptions&, CallSite)> batch;
  /// Rows that travel: `input` may be changed before it goes.
  std::function<void(const Caller&, const Tensor& input, const CallOptions&)> before_all_to_all;
  std::function<Work(const Caller&, const Tensor& buffer, int root, const CallOptions&, CallSite)>
      broadcast;
  std::function<Work(const Caller&, const Tensor& buffer, int peer, const CallOptions&, CallSite)>
      send;
  std::function<Work(const Caller&, const Tensor& buffer, int peer, const CallOptions&, CallSite)>
      recv;
  std::function<std::unique_ptr<Communicator>(const Caller&, int color, int key,
                                              const std::string& name, CallSite)>
      split;
};

/// For RunHooks::wrap_world: every communicator of the run, splits included, gets `faults`.
[[nodiscard]] std::function<std::unique_ptr<Communicator>(Communicator&)> plant(Faults faults);

}  // namespace shardsim::test

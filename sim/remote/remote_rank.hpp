#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/communicator.hpp"
#include "backends/fiber/fiber_world.hpp"
#include "backends/runtime.hpp"
#include "backends/work.hpp"

#include "sim/remote/remote_ranks.hpp"

namespace shardsim {

/// Shared by the fibers of all remote ranks.
struct RemoteRun {
  FiberWorld& world;
  RemoteRanks& ranks;
  std::map<std::string, FiberGroup*> groups = {};  ///< By name; made by the first member.
  std::int64_t num_calls = 0;
};

/// A rank's fiber: it does what the rank's process asks for, one thing after another.
class RemoteRank {
 public:
  RemoteRank(RemoteRun& run, Runtime& runtime, Communicator& world);

  /// Returns when the process has said that its script has ended. Throws CommunicationError for
  /// calls that are wrong by themselves, and Error: E1393 for a process that is gone, E1395 for a
  /// script that has failed, E1397 for groups that members form differently, E1398
  /// for a process that speaks another version.
  void serve();

 private:
  struct Posted {
    std::vector<Tensor> results;
    std::vector<Tensor> given;  // Until it has ended.
    Work work;
  };

  void form(const RemoteMessage& message);
  void post(RemoteMessage& message);
  [[nodiscard]] Work start(Communicator& group, const ProgramCall& call, Posted& posted,
                           CallSite site);
  [[nodiscard]] Work start_messages(Communicator& group, const ProgramCall& call, Posted& posted,
                                    CallSite site);
  void wait(std::int64_t number);
  void wait_for_rest();
  [[noreturn]] void fail(const RemoteMessage& message) const;

  [[nodiscard]] Communicator& group_of(const std::string& name);
  [[nodiscard]] Tensor tensor_of(DType dtype, std::int64_t count);
  [[nodiscard]] Tensor given_of(DType dtype, std::int64_t count);
  [[nodiscard]] CallSite site_of(const std::string& site) const;

  RemoteRun& run_;
  Runtime& runtime_;
  Communicator& world_;
  RankState& rank_;
  std::map<std::string, std::unique_ptr<Communicator>> groups_;
  std::map<std::int64_t, Posted> posted_;
  std::vector<std::byte> payload_;  // Comes with the message that is served.
  std::size_t taken_ = 0;           // So many of its bytes are taken.
};

}  // namespace shardsim

#pragma once

#include <functional>
#include <optional>

#include "backends/message/message_rank.hpp"

#include "tests/backends/fiber_fixture.hpp"

// Ranks that exchange messages through memory instead of a network, as fibers of one thread.
namespace shardsim {

struct MessageCase {
  int gpus_per_node = 0;  ///< 0: all ranks on one node.
  /// Instead of a test_cluster.
  std::optional<Cluster> cluster;
  Algorithm all_reduce_algorithm = Algorithm::automatic;
  bool buffered_sends = false;
  /// The watch of the rank given; null: none.
  std::function<CallWatch*(int)> watch;
  /// Called with every rank as it ends.
  std::function<void(const MessageRank&)> inspect;
};

/// Runs `body` on `ranks` ranks whose collectives are made of messages. Throws what the first rank
/// to fail throws. A run in which nothing moves ends at a deadline, in steps of the scheduler.
void run_message_ranks(int ranks, const FiberWorld::RankBody& body, const MessageCase& test = {});

/// The same for callers that want the whole process.
using ProcessBody = std::function<void(MessageRank&)>;
void run_message_processes(int ranks, const ProcessBody& body, const MessageCase& test = {});

}  // namespace shardsim

#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "sim/hardware/cluster.hpp"

#include "backends/rendezvous/process_launcher.hpp"

// `shardsim torch --verify`: a PyTorch script trains with real numbers on virtual ranks.
namespace shardsim {

struct TorchVerifyOptions {
  Cluster cluster;  ///< It has as many ranks as the world.
  std::string script;
  std::string folder;  ///< For the socket, and for stacks of silent ranks.
  /// How rank `rank` is started, with the path of the socket to which it connects, and that of the
  /// file for its stack.
  std::function<ProcessCommand(int rank, const std::string& socket, const std::string& stack)>
      command;
  double limit_s = 300.0;          ///< As RemoteRanksOptions.
  std::ostream* output = nullptr;  ///< Gets what rank 0 prints.
};

struct TorchVerification {
  int num_ranks = 0;
  /// A communication that hangs, does not match, or is wrong by itself; empty: there is none.
  std::string failure;
  std::int64_t num_calls = 0;
  int num_groups = 0;
  std::int64_t sent_bytes = 0;    ///< By all ranks.
  std::int64_t busiest_rank = 0;  ///< The lowest of those that sent most.
  std::int64_t busiest_bytes = 0;
};

/// Throws Error as RemoteRank::serve and RemoteRanks do, with the rank in front.
[[nodiscard]] TorchVerification verify_torch(const TorchVerifyOptions& options);

/// For people, and one JSON object.
[[nodiscard]] std::string verification_text(const TorchVerifyOptions& options,
                                            const TorchVerification& result);
[[nodiscard]] std::string verification_json(const TorchVerifyOptions& options,
                                            const TorchVerification& result);

}  // namespace shardsim

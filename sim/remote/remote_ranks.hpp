#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "sim/kernel/engine.hpp"

#include "backends/rendezvous/process_launcher.hpp"

#include "sim/remote/rank_connection.hpp"

// Processes whose communication is performed by the fibers of a run, one for each rank. A fiber
// waits here for its process's next message while other ranks go on.
namespace shardsim {

struct RemoteRanksOptions {
  int world_size = 1;
  /// Where the socket and the stacks of silent ranks lie; it exists.
  std::filesystem::path folder;
  /// How a rank's process is started. It connects to `socket_path` and says its rank; it may write
  /// its stack to `stack_path` when it gets SIGUSR1.
  std::function<ProcessCommand(int rank)> command;
  /// A rank that neither calls nor ends for so long, once it has said its rank, is silent.
  double limit_s = 300.0;
  /// Gets the lines that rank 0 prints, and the last ones of a rank that fails; null: nothing.
  std::ostream* output = nullptr;
};

[[nodiscard]] std::filesystem::path socket_path(const std::filesystem::path& folder);
[[nodiscard]] std::filesystem::path stack_path(const std::filesystem::path& folder, int rank);

class RemoteRanks final : public OutsideEvents {
 public:
  /// Starts the processes. Throws Error E1010 where one does not start, E1387 without a socket.
  RemoteRanks(Engine& engine, RemoteRanksOptions options);
  ~RemoteRanks() override;

  /// The next message of a rank's process, for which its fiber waits. Throws Error (E1393) if the
  /// process has ended without saying so, and what its messages are refused for.
  [[nodiscard]] RemoteMessage next(RankState& rank);
  void answer(const RankState& rank, std::span<const std::byte> bytes);

  void wait_for_ranks() override;

  /// Shows the last lines that the rank's process has printed, if they were not shown before.
  void show_last_lines(int rank) const;

 private:
  struct Place;
  [[nodiscard]] Place& place_of(const RankState& rank);
  void accept_ranks();
  void read_all(int milliseconds);
  void greet(std::unique_ptr<RankConnection> connection);
  [[nodiscard]] bool wake();
  // Seconds after which a silent rank is refused.
  [[nodiscard]] double limit_of(const Place& place) const;
  [[noreturn]] void refuse_silent(int rank);
  [[noreturn]] void refuse_ended(int rank);

  Engine& engine_;
  RemoteRanksOptions options_;
  int listener_ = -1;
  ProcessLauncher launcher_;
  std::vector<std::unique_ptr<RankConnection>> strangers_;  // They have not said who they are.
  std::vector<std::unique_ptr<Place>> places_;              // By rank.
};

}  // namespace shardsim

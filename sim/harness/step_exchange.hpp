#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backends/rendezvous/rendezvous_client.hpp"

#include "sim/harness/logged_run.hpp"

// How the steps of all ranks of a real run come to rank 0: as values of the rendezvous, which ranks
// leave there while they wait for others, and when they have ended.
namespace shardsim {

/// A rank's state when it last told.
enum class ProgramState : std::uint8_t { running, waiting, ended };

/// A rank's side.
class StepSender {
 public:
  /// `client` outlives this. All ranks together may leave so many bytes.
  static constexpr std::size_t kMostBytes = std::size_t{40} << 20U;
  StepSender(RendezvousClient& client, int rank, int world_size)
      : client_(client),
        rank_(rank),
        most_bytes_(kMostBytes / static_cast<std::size_t>(world_size)) {}

  /// Forgets the program before.
  void begin(int program);
  void send(const std::string& steps, ProgramState state);

 private:
  void set_chunk();

  RendezvousClient& client_;
  int rank_;
  std::size_t most_bytes_;
  int program_ = 0;
  std::int64_t version_ = 0;
  std::int64_t num_chunks_ = 0;
  std::size_t num_bytes_ = 0;
  std::string chunk_;  // The last one.
};

/// Rank 0's side: what it knows of the others.
class StepCollector {
 public:
  StepCollector(RendezvousClient& client, int world_size)
      : client_(client), world_size_(world_size) {}

  /// Asks what all ranks do. REQUIRES: all have begun this program.
  void look(int program, double now_s);
  /// So long no rank has been running, nor told anything; as of the last look.
  [[nodiscard]] double seconds_at_rest() const { return looked_s_ - rest_since_s_; }
  [[nodiscard]] bool all_ended() const;
  /// Equal as long as no rank tells anything.
  [[nodiscard]] const std::vector<std::int64_t>& versions() const { return versions_; }
  /// By rank; empty if some rank has done more than it may leave.
  [[nodiscard]] std::vector<RankLog> logs();

 private:
  RendezvousClient& client_;
  int world_size_;
  std::vector<ProgramState> states_;
  std::vector<std::int64_t> versions_;
  std::vector<std::int64_t> num_chunks_;  // -1: too many.
  double looked_s_ = 0.0;
  double rest_since_s_ = 0.0;
};

}  // namespace shardsim

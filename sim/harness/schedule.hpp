#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The choices of a run that a cluster leaves open. A schedule and a program make a run, the same
// every time.
namespace shardsim {

/// Whether a point-to-point send waits for its receiver.
enum class SendMode : std::uint8_t {
  rendezvous,  ///< Always: as large messages do, and all on NCCL.
  buffered,    ///< Never: as small messages may.
  drawn,       ///< Each as drawn from the schedule's seed.
};
[[nodiscard]] const char* name_of(SendMode mode);

struct Schedule {
  SendMode sends = SendMode::rendezvous;
  /// Draws the order of ready ranks and of operations that can start; 0: neither is drawn.
  std::uint64_t seed = 0;
  /// The message that each receive from any source takes, in the order of these decisions: an index
  /// into the candidates. Beyond the end: the first in virtual time.
  std::vector<std::uint16_t> decisions;

  friend bool operator==(const Schedule&, const Schedule&) = default;
};

/// A run and its schedule: all that reproduces a failure.
struct ReplayToken {
  std::string name;  ///< CheckOptions::name.
  int ranks = 1;
  int steps = 1;
  std::uint64_t seed = 1;  ///< Seed of the data.
  Schedule schedule;
  int layout = -1;  ///< Index into CheckOptions::layouts; -1: none.

  friend bool operator==(const ReplayToken&, const ReplayToken&) = default;
};

/// One word without spaces: format version, build, name, numbers, decisions run-length coded, and a
/// checksum.
[[nodiscard]] std::string to_text(const ReplayToken& token);
/// Throws UsageError (E1201) for a text that is no token, or one of another build unless `force`: a
/// schedule has another meaning there.
[[nodiscard]] ReplayToken parse_token(const std::string& text, bool force = false);
/// The checksum of a token's text before its last dot.
[[nodiscard]] std::string token_checksum(std::string_view text);
/// Names the running program's build: the linker's build id, or the version if there is none.
[[nodiscard]] std::string build_id();

}  // namespace shardsim

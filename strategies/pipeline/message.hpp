#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "strategies/pipeline/schedule.hpp"

// Which tensor an action hands to, or needs from, another rank.
namespace shardsim {

enum class Direction : std::uint8_t { forward, backward };

/// One transfer. Between two chunks of one rank there is none: the tensor is handed over in place.
struct Message {
  Direction direction = Direction::forward;
  int from_stage = 0;
  int to_stage = 0;
  int microbatch = 0;
  int from_rank = 0;  ///< Ranks of the stages.
  int to_rank = 0;

  friend bool operator==(const Message&, const Message&) = default;
};

/// The edge it takes, as a number in [0, num_edges()): from a rank there are at most two in each
/// direction, to the next rank on the ring and, with V placement, to the one before.
[[nodiscard]] inline std::size_t edge_of(const Message& message, int num_ranks) {
  const int next = message.from_rank + 1 == num_ranks ? 0 : message.from_rank + 1;
  const int lane = static_cast<int>(message.direction) * num_ranks + message.from_rank;
  return 2 * static_cast<std::size_t>(lane) + (message.to_rank == next ? 0 : 1);
}
[[nodiscard]] inline std::size_t num_edges(int num_ranks) {
  return 4 * static_cast<std::size_t>(num_ranks);
}

/// The message that must arrive before an F, B or I of `rank` can run; none for other kinds.
[[nodiscard]] std::optional<Message> message_into(const PipelineSchedule& schedule, int rank,
                                                  const Action& action);

/// The message that an F, B or I of `rank` makes for another rank; none for other kinds.
[[nodiscard]] std::optional<Message> message_out_of(const PipelineSchedule& schedule, int rank,
                                                    const Action& action);

/// The message that a send or receive of `rank` moves. None for compute, at the ends of the
/// pipeline, and between chunks of one rank.
[[nodiscard]] std::optional<Message> message_of(const PipelineSchedule& schedule, int rank,
                                                const Action& action);

}  // namespace shardsim

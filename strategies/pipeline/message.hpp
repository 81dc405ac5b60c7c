#pragma once

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

  friend bool operator==(const Message&, const Message&) = default;
};

/// What must arrive before a F, B or I of `rank` can run; none for other kinds.
[[nodiscard]] std::optional<Message> message_into(const PipelineSchedule& schedule, int rank,
                                                  const Action& action);

/// What a F, B or I of `rank` makes for another rank; none for other kinds.
[[nodiscard]] std::optional<Message> message_out_of(const PipelineSchedule& schedule, int rank,
                                                    const Action& action);

/// What a send or receive of `rank` moves. None for compute, and where there is nothing to move: at
/// the ends of the pipeline, and between chunks of one rank.
[[nodiscard]] std::optional<Message> message_of(const PipelineSchedule& schedule, int rank,
                                                const Action& action);

}  // namespace shardsim

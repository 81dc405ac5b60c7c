#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Pipeline schedules as pure functions: in which order each pipeline rank runs the forwards and
// backwards of its stages. No engine, no communicator and no tensor here, so a schedule can be
// printed, validated (validate.hpp) and timed (timeline.hpp) before anything runs.
//
// A new schedule is one file with one function, and one row in schedule_table.cpp.
//
// Notation of all formulas: p ranks, V chunks per rank, M microbatches, r the rank; F, I, W the
// time of one rank's whole share of a microbatch (all its chunks), B = I + W.
namespace shardsim {

/// A rank, stage, chunk or cell as the index of a list.
template <std::integral Number>
[[nodiscard]] constexpr std::size_t index_of(Number number) {
  return static_cast<std::size_t>(number);
}

/// The next action of one pipeline rank, as data. The words are those of PyTorch's pipelining and
/// of the zero-bubble paper (Qi et al. 2023). A backward is either one B, or an I and a later W.
/// The stage before waits for I (gradient of the input); no stage waits for W (gradient of the
/// weights).
enum class ActionKind : std::uint8_t {
  forward,          // F
  backward,         // B
  backward_input,   // I
  backward_weight,  // W
  send_forward,     // SEND_F: the activation that this stage's F made, to the next stage
  recv_forward,     // RECV_F: the activation that this stage's F needs
  send_backward,    // SEND_B: the input gradient that this stage's B or I made, to the stage before
  recv_backward,    // RECV_B: the output gradient that this stage's B or I needs
};
inline constexpr int kNumActionKinds = 8;

/// One cell of a schedule. `chunk` counts the model chunks of the rank whose list it stands in,
/// also for sends and receives: the chunk whose tensor it is on this side.
struct Action {
  ActionKind kind = ActionKind::forward;
  /// For an F: it and the B in the next cell, of another microbatch, are one block (DualPipe's F&B,
  /// PyTorch's OVERLAP_F_B). The block starts when both have their inputs, and their outputs leave
  /// when it ends.
  bool overlaps_next = false;
  std::int16_t chunk = 0;
  std::int32_t microbatch = 0;

  friend bool operator==(const Action&, const Action&) = default;
};

[[nodiscard]] constexpr Action make_action(ActionKind kind, int chunk, int microbatch) {
  return {kind, false, static_cast<std::int16_t>(chunk), static_cast<std::int32_t>(microbatch)};
}

[[nodiscard]] constexpr bool is_send(ActionKind kind) {
  return kind == ActionKind::send_forward || kind == ActionKind::send_backward;
}
[[nodiscard]] constexpr bool is_receive(ActionKind kind) {
  return kind == ActionKind::recv_forward || kind == ActionKind::recv_backward;
}
/// F, B, I and W take time on the rank; sends and receives only start transfers.
[[nodiscard]] constexpr bool is_compute(ActionKind kind) {
  return !is_send(kind) && !is_receive(kind);
}
/// B and I: they need the gradient of the next stage, and make that of the stage before.
[[nodiscard]] constexpr bool makes_input_gradient(ActionKind kind) {
  return kind == ActionKind::backward || kind == ActionKind::backward_input;
}
/// B and W: after them nothing of the forward is needed any more.
[[nodiscard]] constexpr bool releases_activation(ActionKind kind) {
  return kind == ActionKind::backward || kind == ActionKind::backward_weight;
}

/// "F", "B", "I", "W", "SEND_F", "RECV_F", "SEND_B", "RECV_B".
[[nodiscard]] std::string_view mnemonic(ActionKind kind);

/// "2F0": stage (not chunk: a stage is unique in the pipeline), mnemonic, microbatch; "2F0&" if it
/// overlaps with the next.
[[nodiscard]] std::string to_text(const Action& action, int stage);

/// The content of such a cell, before it is known which stages are on which rank.
struct StageAction {
  ActionKind kind = ActionKind::forward;
  int stage = 0;
  int microbatch = 0;
};

/// "12", "SEND_F" and "3" of "12SEND_F3", whatever the middle is.
struct ActionWords {
  explicit ActionWords(std::string_view cell);
  /// None unless they are two numbers around a mnemonic.
  [[nodiscard]] std::optional<StageAction> action() const;

  std::string_view stage;
  std::string_view kind;
  std::string_view microbatch;
};

/// A whole number of 0 or more; else none.
[[nodiscard]] std::optional<int> parse_index(std::string_view digits);

/// The size of a pipeline.
struct PipelineShape {
  int num_ranks = 1;         ///< p
  int num_chunks = 1;        ///< V: model chunks per rank; p * V stages in all.
  int num_microbatches = 1;  ///< M

  friend bool operator==(const PipelineShape&, const PipelineShape&) = default;
};

/// Forwards of a whole pipeline: 2^24 are some 400 MiB of actions, and far beyond any real step.
inline constexpr std::int64_t kMaxForwards = std::int64_t{1} << 24;

/// Whether p * V * M is at most that. REQUIRES: none of them is negative.
[[nodiscard]] constexpr bool fits_into_memory(const PipelineShape& shape) {
  const std::int64_t stages = std::int64_t{shape.num_ranks} * shape.num_chunks;
  return stages <= kMaxForwards && stages * shape.num_microbatches <= kMaxForwards;
}

/// Which stages a rank has. `loop`: chunk * p + rank, so that every stage sends to the next rank
/// and the last rank to the first. `v`: chunks go down and up again, with two of them stages r and
/// 2p - 1 - r, so that rank 0 has the first and the last stage and the turn needs no message.
enum class Placement : std::uint8_t { loop, v };

/// The places of a schedule's cells in its file, so that messages can name them: row r is line
/// r + 1.
struct ScheduleSource {
  std::string file;
  std::vector<std::vector<int>> cells;  ///< [rank][cell]: the cell of its line, counted from 1.
};

/// How many sends a rank may have pending on one edge, where nothing else is said.
inline constexpr int kTwoSends = 2;

/// Per rank the list of its actions, to be done in that order.
struct PipelineSchedule {
  std::string name;
  PipelineShape shape;
  Placement placement = Placement::loop;
  /// Before a rank sends, it waits for the send it posted this many earlier to the same rank in the
  /// same direction; see the protocol in lower.hpp.
  int sends_in_flight = kTwoSends;
  std::vector<std::vector<Action>> actions;      ///< [rank][cell]
  std::shared_ptr<const ScheduleSource> source;  ///< Null: from no file.

  [[nodiscard]] int num_stages() const { return shape.num_ranks * shape.num_chunks; }
  [[nodiscard]] int stage_of(int rank, int chunk) const;
  [[nodiscard]] int rank_of(int stage) const;
  [[nodiscard]] int chunk_of(int stage) const { return stage / shape.num_ranks; }
  /// to_text of an action of `rank`, as it stands in tables: "1F0".
  [[nodiscard]] std::string cell_text(int rank, const Action& action) const {
    return to_text(action, stage_of(rank, action.chunk));
  }
  /// Whether it contains I and W instead of B.
  [[nodiscard]] bool splits_backward() const;
  /// Whether forwards and backwards overlap in it.
  [[nodiscard]] bool has_blocks() const;
  /// Whether it contains sends and receives (see lower.hpp).
  [[nodiscard]] bool is_lowered() const;

  /// The source is not compared.
  friend bool operator==(const PipelineSchedule& a, const PipelineSchedule& b) {
    return a.name == b.name && a.shape == b.shape && a.placement == b.placement &&
           a.sends_in_flight == b.sends_in_flight && a.actions == b.actions;
  }
};

/// The schedule of that name, compute actions only. Throws UsageError if there is no such schedule
/// or it cannot run in this shape, LimitError if its lists would not fit into memory; the message
/// says what is wrong with which value, the fix what can be done.
[[nodiscard]] PipelineSchedule make_schedule(std::string_view name, const PipelineShape& shape);

/// All names, simplest schedule first. schedule_row.hpp says more about each.
[[nodiscard]] std::vector<std::string_view> schedule_names();

}  // namespace shardsim

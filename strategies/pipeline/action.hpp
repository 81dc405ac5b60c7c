#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// The next action of one pipeline rank, as data. The words are those of PyTorch's pipelining and of
// the zero-bubble paper (Qi et al. 2023). A backward is either one B, or an I and a later W. The
// stage before waits for I (gradient of the input); no stage waits for W (gradient of the weights).
namespace shardsim {

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

}  // namespace shardsim

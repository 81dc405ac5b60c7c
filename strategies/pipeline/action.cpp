#include "strategies/pipeline/action.hpp"

#include <array>

namespace shardsim {

std::string_view mnemonic(ActionKind kind) {
  static constexpr std::array<std::string_view, kNumActionKinds> kNames = {
      "F", "B", "I", "W", "SEND_F", "RECV_F", "SEND_B", "RECV_B"};
  return kNames.at(static_cast<std::size_t>(kind));
}

std::string to_text(const Action& action, int stage) {
  return std::to_string(stage) + std::string(mnemonic(action.kind)) +
         std::to_string(action.microbatch) + (action.overlaps_next ? "&" : "");
}

}  // namespace shardsim

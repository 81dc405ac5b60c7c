#pragma once

#include <array>
#include <utility>

#include "backends/communicator.hpp"

namespace shardsim {

/// A tensor goes to the next rank of a ring, and one comes from the rank before.
class RingHop {
 public:
  RingHop() = default;
  RingHop(Communicator& ring, Tensor goes, Tensor comes, const char* label)
      : goes_(std::move(goes)), comes_(std::move(comes)) {
    const int next = (ring.rank() + 1) % ring.size();
    const int before = (ring.rank() + ring.size() - 1) % ring.size();
    // Together: alone, sends round a ring would wait for each other.
    const std::array<P2pOp, 2> both = {
        {{P2pOp::Kind::send, goes_, next}, {P2pOp::Kind::recv, comes_, before}}};
    work_ = ring.batch(both, {.label = label});
  }
  /// The received tensor. To be called once.
  [[nodiscard]] Tensor take() {
    work_.wait();
    goes_ = {};
    return std::exchange(comes_, Tensor());
  }

 private:
  Tensor goes_;
  Tensor comes_;
  Work work_;
};

}  // namespace shardsim

#pragma once

#include "tests/backends/message_fixture.hpp"
#include "tests/nccl/nccl_fixture.hpp"

namespace shardsim {

/// `body` under the definitions of the operations (the simulation), made of messages, and over NCCL
/// as far as its stand-in goes.
inline void run_on_all(int ranks, const FiberWorld::RankBody& body) {
  run_ranks(ranks, body);
  run_message_ranks(ranks, body);
  run_nccl_ranks(ranks, body);
}

}  // namespace shardsim

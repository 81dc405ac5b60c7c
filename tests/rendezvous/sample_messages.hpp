#pragma once

#include <vector>

#include "backends/rendezvous/rendezvous_message.hpp"

namespace shardsim::test {

/// One of each, with every field filled in.
[[nodiscard]] std::vector<RendezvousMessage> sample_messages();

/// A call as ranks of a group of `size` make it.
[[nodiscard]] CallFingerprint sample_call(int rank, int size);

}  // namespace shardsim::test

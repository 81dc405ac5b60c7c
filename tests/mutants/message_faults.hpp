#pragma once

#include <string>
#include <vector>

#include "tests/mutants/mutant.hpp"

// Bugs in what pipeline stages send each other. Each bends messages with one label: "activation" or
// "activation gradient".
namespace shardsim::test {

/// The second message of each edge is neither sent nor received: what lay in the buffer is used.
[[nodiscard]] Faults forgotten_message(const std::string& label);
/// The second message of each edge is never sent.
[[nodiscard]] Faults dropped_send(const std::string& label);
/// The second message of each edge is never received.
[[nodiscard]] Faults dropped_receive(const std::string& label);
/// The first two messages of each edge are sent in the wrong order.
[[nodiscard]] Faults swapped_messages(const std::string& label);
/// Each message but the first is that of the microbatch before.
[[nodiscard]] Faults stale_messages(const std::string& label);
/// One element of the second message of each edge is wrong by a hundredth.
[[nodiscard]] Faults corrupted_element(const std::string& label);
/// The second message of each edge is sent twice.
[[nodiscard]] Faults sent_twice(const std::string& label);
/// Senders send to themselves.
[[nodiscard]] Faults sent_to_sender(const std::string& label);
/// Receivers wait for themselves.
[[nodiscard]] Faults received_from_receiver(const std::string& label);
/// Half of the second message of each edge is sent.
[[nodiscard]] Faults half_sent(const std::string& label);
/// The second message of each edge is sent as something else.
[[nodiscard]] Faults mislabelled(const std::string& label);

/// Each edge that starts at an even stage leads to the stage that another should lead to.
/// REQUIRES: four stages.
[[nodiscard]] Faults crossed_edges();

/// All of them, for both labels and all schedules.
[[nodiscard]] std::vector<Mutant> message_mutants();

}  // namespace shardsim::test

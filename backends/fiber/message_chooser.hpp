#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/kernel/call_site.hpp"
#include "sim/kernel/time.hpp"

// The message for a receive that names no sender, or no tag. The explorer of schedules decides.
namespace shardsim {

/// A message between two ranks, the same in every run that has come to it the same way.
struct MessageName {
  int source = 0;
  std::int64_t number = 0;  ///< Among the messages of its source.

  friend auto operator<=>(const MessageName&, const MessageName&) = default;
};

struct SentMessage {
  MessageName name;
  int destination = 0;
  int tag = 0;
  /// By receiver: how many of its open receives it had waited for before this one was sent, as far
  /// as its sender could know.
  std::vector<std::int32_t> known;
};

/// A message and an open receive that may take it now.
struct MessageChoice {
  MessageName message;
  int receiver = 0;
  std::int64_t receive = 0;  ///< Number of the receive among its rank's.
  int source = 0;            ///< As the receive names it, with kAnySource and kAnyTag.
  int tag = 0;
  Time time;  ///< When it could start.
  CallSite site;
};

class MessageChooser {
 public:
  virtual ~MessageChooser() = default;
  virtual void sent(const SentMessage& /*message*/) {}
  /// `receiver` has waited for an open receive: what it took is known from here on.
  virtual void waited(int /*receiver*/, std::int64_t /*receive*/) {}
  /// Asked when no rank can continue and nothing else can end. One of `candidates`, of which there
  /// is at least one; by receiver, receive and message.
  virtual std::size_t choose(std::span<const MessageChoice> candidates) = 0;
};

}  // namespace shardsim

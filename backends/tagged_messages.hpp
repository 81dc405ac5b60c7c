#pragma once

#include <cstdint>
#include <optional>

#include "sim/kernel/call_site.hpp"

#include "backends/communicator.hpp"
#include "backends/tensor.hpp"
#include "backends/work.hpp"

// Messages with tags and receives that name no sender, as MPI has them (and NCCL has not).
namespace shardsim {

inline constexpr int kAnySource = -1;
inline constexpr int kAnyTag = -1;

/// The message that a receive has taken.
struct MessageStatus {
  int source = -1;
  int tag = -1;
  std::int64_t count = 0;  ///< Elements; the buffer may be larger.

  friend bool operator==(const MessageStatus&, const MessageStatus&) = default;
};

/// One member's end of the messages of a communicator, which are apart from those of every other
/// (Communicator::tagged_messages). Ranks are those of its members. A receive takes messages of one
/// sender in the order in which they were sent; receives take messages in the order in which they
/// were posted (MPI 4.0, section 3.5). Which sender's message a receive from any source takes is
/// open: the in-memory backend takes the first in virtual time, or what an exploration chooses.
///
/// Posted without blocking; several may be under way at once and none waits for another. Unless
/// sends are buffered, a send ends when its receive has taken it.
class TaggedMessages {
 public:
  virtual ~TaggedMessages() = default;
  TaggedMessages() = default;
  TaggedMessages(const TaggedMessages&) = delete;
  TaggedMessages& operator=(const TaggedMessages&) = delete;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;

  /// `tag`: 0 or more. Only the options label and traffic have an effect.
  virtual Work send(const Tensor& buffer, int peer, int tag, const CallOptions& options = {},
                    CallSite site = CallSite::here()) = 0;
  /// `source` and `tag` may be kAnySource and kAnyTag. `status`, if given, is filled in while the
  /// work is waited for, and must live until then.
  virtual Work recv(const Tensor& buffer, int source, int tag, MessageStatus* status = nullptr,
                    const CallOptions& options = {}, CallSite site = CallSite::here()) = 0;

  /// Returns when there is a message that a receive of `source` and `tag` would take, and says
  /// which (MPI_Probe); it has `count` elements if they are of type `dtype`. The message stays: the
  /// next receive of its sender and tag takes it.
  virtual MessageStatus probe(int source, int tag, DType dtype,
                              CallSite site = CallSite::here()) = 0;
  /// The same of a message that is there now; nothing if there is none (MPI_Iprobe).
  virtual std::optional<MessageStatus> try_probe(int source, int tag, DType dtype,
                                                 CallSite site = CallSite::here()) = 0;
};

}  // namespace shardsim

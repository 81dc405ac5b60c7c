#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "sim/hardware/collective.hpp"

#include "backends/communicator.hpp"

// Point-to-point messages between the processes (or threads) of a run, and nothing more. An
// implementation of these few calls is a backend: collectives are made of them (message_plan.hpp).
namespace shardsim {

/// A message has another size than the receiver asked for; says which.
class WrongSize : public std::runtime_error {
 public:
  explicit WrongSize(const std::string& what, int peer = -1)
      : std::runtime_error(what), peer_(peer) {}
  /// The sender; -1: not known.
  [[nodiscard]] int peer() const { return peer_; }

 private:
  int peer_;
};

/// A collective that the library below has itself. Counts are in elements. `in` and `out` do not
/// overlap, but that all_reduce and broadcast work in place in `out`.
struct NativeCall {
  CollectiveKind kind = collective::kAllReduce;
  int root = -1;
  DType dtype = DType::fp32;
  bool reduces = false;
  ReduceOp reduction = ReduceOp::sum;  ///< Never avg.
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::int64_t count = 0;  ///< Elements of the full buffer.
  /// By member; empty for all_reduce, broadcast and reduce. Kept until the request is done.
  std::span<const std::int64_t> counts;
  std::span<const std::int64_t> receive_counts;  ///< all_to_all only; `counts` are sent then.
};

/// The message that a receive with a tag has taken.
struct TakenMessage {
  int source = -1;  ///< Member.
  int tag = -1;
  std::int64_t bytes = 0;
};

/// A group of processes and its own ordered channels: messages of a group never meet those of
/// another. All calls of a process come from one thread.
class Transport {
 public:
  /// A message that has been started, or a barrier. Freed when `done` has said so.
  using Request = std::int64_t;

  virtual ~Transport() = default;
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  /// Ranks of the members among all processes of the run.
  [[nodiscard]] virtual const std::vector<int>& world_ranks() const = 0;

  /// Messages from one member to another arrive in the order they were sent. The bytes stay as they
  /// are until the request is done. `rendezvous`: done only when the receiver has asked for it.
  virtual Request send(int peer, const std::byte* data, std::int64_t bytes, bool rendezvous) = 0;
  /// The message must have exactly `bytes` bytes.
  virtual Request receive(int peer, std::byte* data, std::int64_t bytes) = 0;
  /// Done when every member has asked for it.
  virtual Request barrier() = 0;
  /// Whether the library below has collectives of its own; `collective` may be called then.
  [[nodiscard]] virtual bool has_collectives() const { return false; }
  virtual Request collective(const NativeCall& /*call*/) {
    throw std::logic_error("this transport has messages only");
  }

  // Messages with tags, as backends/tagged_messages.hpp has them: on a transport that is used for
  // no others.
  /// Whether there are any: then the four functions below may be called.
  [[nodiscard]] virtual bool has_tags() const { return false; }
  virtual Request send_tagged(int /*peer*/, int /*tag*/, const std::byte* /*data*/,
                              std::int64_t /*bytes*/, bool /*rendezvous*/) {
    throw std::logic_error("this transport has no tags");
  }
  /// Takes a message of up to `bytes` bytes; `source` and `tag` may be -1: any.
  virtual Request receive_tagged(int /*source*/, int /*tag*/, std::byte* /*data*/,
                                 std::int64_t /*bytes*/) {
    throw std::logic_error("this transport has no tags");
  }
  /// The first message that such a receive would take now, if there is one. It stays.
  [[nodiscard]] virtual std::optional<TakenMessage> probe_tagged(int /*source*/, int /*tag*/) {
    throw std::logic_error("this transport has no tags");
  }
  /// The message of the tagged receive for which `done` has last said true, or thrown WrongSize.
  [[nodiscard]] virtual TakenMessage taken() const { return {}; }

  /// Whether it has ended; also drives progress. To be asked until it says true, then never again.
  /// Throws Error (backend_failed), or WrongSize.
  [[nodiscard]] virtual bool done(Request request) = 0;

  /// Every member must call it, none with messages under way that another member needs to get here.
  /// Members with equal `color` (at least 0) form a group, ranked by `key`, then by their rank
  /// here; null for a member whose color is kNoColor.
  [[nodiscard]] virtual std::unique_ptr<Transport> split(int color, int key) = 0;
};

}  // namespace shardsim

#pragma once

#include <memory>
#include <optional>

#include "backends/fiber/fiber_communicator.hpp"
#include "backends/fiber/message_half.hpp"
#include "backends/tagged_messages.hpp"

// Tagged messages of one member of a group, in memory.
namespace shardsim {

/// Its messages are halves on a stream of the rank in the group of all ranks; the channel keeps
/// them apart.
class FiberTaggedMessages final : public TaggedMessages {
 public:
  /// `channel`: the group whose members talk, of which this is `member`.
  FiberTaggedMessages(FiberGroup& everyone, const FiberGroup& channel, int member);
  ~FiberTaggedMessages() override;

  [[nodiscard]] int rank() const override { return member_; }
  [[nodiscard]] int size() const override;
  Work send(const Tensor& buffer, int peer, int tag, const CallOptions& options,
            CallSite site) override;
  Work recv(const Tensor& buffer, int source, int tag, MessageStatus* status,
            const CallOptions& options, CallSite site) override;
  MessageStatus probe(int source, int tag, DType dtype, CallSite site) override;
  std::optional<MessageStatus> try_probe(int source, int tag, DType dtype, CallSite site) override;

 private:
  // A probe's call, with ranks of the world.
  [[nodiscard]] MessageHalf::Call probing(int source, int tag, MessageStatus* status,
                                          CallSite site) const;
  [[nodiscard]] int world_rank_of(int peer) const;
  // `call` has ranks of the channel. ARG_RANGE if its buffer, peer or tag is none.
  void require_in_range(const MessageHalf::Call& call) const;
  Work post(const MessageHalf::Call& call);
  Work post_half(const MessageHalf::Call& call);
  [[nodiscard]] Time begin(const MessageHalf::Call& call);

  const FiberGroup& channel_;
  int member_;
  std::unique_ptr<TaggedStream> stream_;
};

}  // namespace shardsim

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/fiber/fiber_operation.hpp"

// Point-to-point: transfers between two members, and batches of them.
namespace shardsim {

/// An operation that is one message, or one end of one.
class SingleMessage : public FiberOperation {
 public:
  [[nodiscard]] bool is_transfer() const final { return true; }
  [[nodiscard]] Moved moved(int member) const final;
  void count_off_ring(int member) const final;
};

/// One message. Rendezvous: it starts when both sides have posted it and both streams are free.
class TransferOperation final : public SingleMessage {
 public:
  void open(FiberGroup& group, std::int64_t sequence, int source, int destination);
  /// One side joins with its call and buffer. False if it does not fit the other side's.
  /// `number`: of this send or receive among those of its rank in the group.
  bool join(bool sends, const CallRecord& record, const Tensor& buffer, std::int64_t number);

  [[nodiscard]] int source() const { return source_; }
  [[nodiscard]] int destination() const { return destination_; }
  [[nodiscard]] bool posted(bool sends) const { return sides_[sends ? 0 : 1].posted; }
  [[nodiscard]] const CallRecord& side(bool sends) const { return sides_[sends ? 0 : 1].record; }
  [[nodiscard]] std::int64_t number(bool sends) const { return sides_[sends ? 0 : 1].number; }
  [[nodiscard]] bool mismatched() const { return mismatched_; }
  /// The sender does not wait for the receiver: the message was priced and copied when it left.
  void set_buffered() { buffered_ = true; }

  [[nodiscard]] std::optional<MessageEnd> message_end(int member) const override;
  [[nodiscard]] const CallRecord& record_of(int member) const override {
    return side(member == source_);
  }
  [[nodiscard]] std::int64_t trace_id() const override;
  void release() override;
  [[nodiscard]] std::vector<int> missing() const override { return sides_that(false); }
  [[nodiscard]] std::vector<int> arrived() const override { return sides_that(true); }

 protected:
  Time launch(Time start) override;

 private:
  struct Side {
    bool posted = false;
    std::int64_t number = 0;
    CallRecord record;
    Tensor buffer;
  };
  [[nodiscard]] std::vector<int> sides_that(bool have_posted) const;

  int source_ = 0;
  int destination_ = 0;
  int num_unwaited_ = 0;
  bool mismatched_ = false;
  bool buffered_ = false;
  Side sides_[2];  // Sender, receiver.
};

/// Work of one member that ends when all its parts have: a batch, or the local half of a buffered
/// send.
class JoinOperation final : public FiberOperation {
 public:
  void open(FiberGroup& group, std::int64_t sequence, int member, const CallRecord& record);
  void add_part(FiberOperation& part) { parts_.push_back(&part); }
  /// A time to spend of its own: what a buffered send costs its sender.
  void set_cost(Time cost) { cost_ = cost; }
  /// The message it sends besides its parts: a buffered one.
  void set_sent(int peer, std::int64_t bytes) {
    peer_ = peer;
    sent_ = bytes;
  }
  /// The one message it is the sender's half of.
  void set_trace_id(std::int64_t id) { trace_id_ = id; }

  [[nodiscard]] bool is_transfer() const override { return true; }
  [[nodiscard]] Moved moved(int member) const override;
  void count_off_ring(int member) const override;
  [[nodiscard]] std::int64_t trace_id() const override { return trace_id_; }
  void release() override;
  [[nodiscard]] std::vector<int> missing() const override { return {}; }
  [[nodiscard]] std::vector<int> arrived() const override { return {member_}; }

 protected:
  Time launch(Time start) override;

 private:
  int member_ = 0;
  Time cost_;
  int peer_ = -1;  // Peer of the buffered message; -1: none.
  std::int64_t sent_ = 0;
  std::int64_t trace_id_ = -1;  // A batch is several communications.
  std::vector<FiberOperation*> parts_;
};

}  // namespace shardsim

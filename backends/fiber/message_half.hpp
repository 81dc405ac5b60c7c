#pragma once

#include <cstdint>
#include <vector>

#include "backends/fiber/fiber_operation.hpp"
#include "backends/fiber/message_chooser.hpp"
#include "backends/tagged_messages.hpp"

namespace shardsim {

class Mailbox;

/// A send or a receive with a tag: each an operation of its own, which starts when a match has been
/// found for it (a buffered send at once).
class MessageHalf final : public FiberOperation {
 public:
  struct Call {
    bool sends = false;
    int member = 0;
    int peer = 0;  ///< kAnySource: a receive from anyone.
    int tag = 0;
    Tensor buffer;
    MessageStatus* status = nullptr;
    CallRecord record;
    Time ready;
    std::int64_t number = 0;  ///< Among its rank's sends, or receives.
  };
  void open(FiberGroup& group, Mailbox& mailbox, Call call);
  [[nodiscard]] const Call& call() const { return call_; }
  [[nodiscard]] bool is_open() const {
    return !call_.sends && (call_.peer == kAnySource || call_.tag == kAnyTag);
  }
  /// Whether this receive may take the message of that send.
  [[nodiscard]] bool fits(const MessageHalf& send) const;
  /// The sender continues without its receiver; `copy`: of its data.
  void set_buffered(Tensor copy, Time price);
  [[nodiscard]] bool is_buffered() const { return buffered_; }
  [[nodiscard]] Time price() const { return cost_; }
  /// A receive has its message: both start, and take `price`.
  void match(Engine& engine, MessageHalf& send, Time start, Time price);
  [[nodiscard]] bool is_matched() const { return other_ != nullptr; }

  [[nodiscard]] bool is_transfer() const override { return true; }
  [[nodiscard]] Moved moved(int member) const override;
  void count_off_ring(int member) const override;
  [[nodiscard]] std::int64_t trace_id() const override;
  void release() override;
  void note_wait() override;
  [[nodiscard]] std::vector<int> missing() const override;
  [[nodiscard]] std::vector<int> arrived() const override { return {call_.member}; }

  // For the mailbox: who knew what when this was posted.
  std::vector<std::int32_t> known;

 protected:
  Time launch(Time start) override;

 private:
  void move_data();

  Mailbox* mailbox_ = nullptr;
  Call call_;
  MessageHalf* other_ = nullptr;
  bool buffered_ = false;
  bool moved_ = false;
  Time cost_;
  int source_ = -1;
  std::int64_t sent_count_ = 0;
};

}  // namespace shardsim

#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sim/hardware/network_model.hpp"

#include "backends/message/message_operation.hpp"
#include "backends/message/process_rank.hpp"

namespace shardsim {

struct MessageOptions : WaitOptions {
  /// Decides between algorithms as a simulation of the same machine does.
  Cluster cluster;
  Algorithm all_reduce_algorithm = Algorithm::automatic;
  bool buffered_sends = false;
  /// Collectives of the transport's library, where it has any, instead of our own.
  bool native_collectives = false;
};

/// One group's operations in the order they were posted: they run one after the other.
struct MessageStream : ProcessStream {
  std::unique_ptr<Transport> transport;
  std::deque<std::shared_ptr<MessageOperation>> queue;  // The first is under way.
};

/// One process of a run whose collectives are made of messages: drives the operations of all its
/// groups while it waits for one of them.
class MessageRank final : public ProcessRank {
 public:
  /// `transport`: of all processes.
  MessageRank(std::unique_ptr<Transport> transport, MessageOptions options);

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] const MessageOptions& options() const { return options_; }
  [[nodiscard]] std::unique_ptr<Communicator> world() override;
  void finish() override;
  /// A transport of all processes for messages of another kind. Every process must call it, before
  /// world().
  [[nodiscard]] std::unique_ptr<Transport> fork() { return first_->split(0, rank_); }

  // For communicators.
  MessageStream& open(std::unique_ptr<Transport> transport, const std::string& name);
  void close(MessageStream& stream, GroupTraffic traffic);
  /// Puts it behind what was posted before.
  void post(MessageStream& stream, const std::shared_ptr<MessageOperation>& operation);
  /// Returns when `operation` has ended. Throws a CommunicationError (TIMEOUT) at the deadline.
  void wait(MessageStream& stream, const MessageOperation& operation);
  bool poll(const MessageStream& stream, const MessageOperation& operation);
  // For messages with tags.
  /// Goes on until it `has_ended`; `time_out` throws.
  void go_on_until(const std::function<bool()>& has_ended, const std::function<void()>& time_out);
  /// One look at all that is under way.
  void look(const std::function<void()>& time_out);
  /// Goes on with more than groups wherever it goes on; tells whether anything has moved.
  void set_messages(std::function<bool()> advance) { messages_ = std::move(advance); }
  using ProcessRank::report;
  using ProcessRank::tell;
  using ProcessRank::time_out_report;
  /// Ring or tree, as the network model prices it.
  [[nodiscard]] Algorithm choose(const GroupLayout& layout, const DoubleTree& tree,
                                 std::int64_t bytes, std::int64_t largest_chunk);

 private:
  bool advance_all();
  bool advance(MessageStream& stream, MessageOperation& operation);
  [[nodiscard]] const WaitOptions& waiting() const override { return options_; }
  // World ranks of those whose messages are under way, ascending.
  [[nodiscard]] static std::vector<int> awaited(const MessageStream& stream,
                                                const MessageOperation& operation);
  [[noreturn]] void wrong_size(const MessageStream& stream, const MessageOperation& operation,
                               const WrongSize& error) const;
  [[noreturn]] void time_out(const MessageStream& stream, const MessageOperation& operation) const;

  std::unique_ptr<Transport> first_;  // Until world() takes it.
  MessageOptions options_;
  std::unique_ptr<NetworkModel> network_;
  int rank_;
  std::vector<std::unique_ptr<MessageStream>> streams_;
  std::function<bool()> messages_;
};

/// One process's end of a group whose collectives are made of point-to-point messages: ring, tree,
/// chain, star and pairwise, the algorithms that the simulation counts.
class MessageCommunicator final : public ProcessCommunicator {
 public:
  MessageCommunicator(MessageRank& rank, MessageStream& stream);
  ~MessageCommunicator() override;

  Work post(const Call& call) override;
  std::unique_ptr<Communicator> split(int color, int key, const std::string& name,
                                      CallSite site) override;

 private:
  using Operation = std::shared_ptr<MessageOperation>;

  void await(const ProcessOperation& operation) override {
    rank_.wait(stream_, static_cast<const MessageOperation&>(operation));
  }
  bool poll(const ProcessOperation& operation) override {
    return rank_.poll(stream_, static_cast<const MessageOperation&>(operation));
  }
  Operation make(const Call& call, MessagePlan plan, const Tensor& output, const Tensor& input);
  Work launch(const Operation& operation);
  [[nodiscard]] MessagePlan tree_or_plan_of(const Call& call);
  // Which parts of the buffers the messages of a collective are read from and written to.
  void set_windows(MessageOperation& operation, const Call& call) const;
  // The library's own collective carries it, if that is asked for.
  void choose_carrier(MessageOperation& operation, const Call& call) const;
  Work transfer(const Call& call);
  [[nodiscard]] std::int64_t offset(int member) const {
    return offsets_[static_cast<std::size_t>(member)];
  }
  [[nodiscard]] bool sums_along_tree(const CallRecord& record);

  MessageRank& rank_;
  MessageStream& stream_;
  GroupLayout layout_;
  std::unique_ptr<DoubleTree> tree_;  // Built when first asked for.
};

}  // namespace shardsim

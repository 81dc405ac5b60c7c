#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/call.hpp"
#include "backends/message/message_rank.hpp"

namespace shardsim {

/// One process's end of a group whose collectives are made of point-to-point messages: ring, tree,
/// chain, star and pairwise, the algorithms that the simulation counts.
class MessageCommunicator final : public Communicator, private WorkOwner {
 public:
  MessageCommunicator(MessageRank& rank, MessageStream& stream);
  ~MessageCommunicator() override;

  [[nodiscard]] int rank() const override { return stream_.transport->rank(); }
  [[nodiscard]] int size() const override { return stream_.transport->size(); }
  [[nodiscard]] const std::string& name() const override { return stream_.name; }

  [[nodiscard]] const TrafficCounters* counters() const override { return &traffic_.counters; }

  Work post(const Call& call) override;
  std::unique_ptr<Communicator> split(int color, int key, const std::string& name,
                                      CallSite site) override;

  [[nodiscard]] Diagnosis diagnosis_of(const std::string& action, CallSite site) const override;

 private:
  using Operation = std::shared_ptr<MessageOperation>;

  void wait(void* token) override;
  void abandon(void* token) noexcept override;
  Operation make(const Call& call, MessagePlan plan, const Tensor& output, const Tensor& input);
  Work launch(const Operation& operation, const CallOptions& options);
  [[nodiscard]] MessagePlan plan_of(const Call& call);
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
  std::unique_ptr<DoubleTree> tree_;   // Built when first asked for.
  std::vector<std::int64_t> offsets_;  // For the call being posted.
  std::vector<Operation> unwaited_;
  GroupTraffic traffic_;
};

}  // namespace shardsim

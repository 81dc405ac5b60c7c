#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/checked_communicator.hpp"
#include "backends/message/message_rank.hpp"

namespace shardsim {

/// One process's end of a group whose collectives are made of point-to-point messages: ring, tree,
/// chain, star and pairwise, the algorithms that the simulation counts.
class MessageCommunicator final : public CheckedCommunicator, private WorkOwner {
 public:
  MessageCommunicator(MessageRank& rank, MessageStream& stream);
  ~MessageCommunicator() override;

  [[nodiscard]] int rank() const override { return stream_.transport->rank(); }
  [[nodiscard]] int size() const override { return stream_.transport->size(); }
  [[nodiscard]] const std::string& name() const override { return stream_.name; }

  [[nodiscard]] const TrafficCounters* counters() const override { return &traffic_.counters; }

  Work all_reduce(const Tensor& buffer, ReduceOp op, const CallOptions& options,
                  CallSite site) override;
  Work reduce_scatter(const Tensor& output, const Tensor& input, ReduceOp op,
                      const CallOptions& options, CallSite site) override;
  Work all_gather(const Tensor& output, const Tensor& input, const CallOptions& options,
                  CallSite site) override;
  Work all_to_all(const Tensor& output, const Tensor& input,
                  std::span<const std::int64_t> send_counts,
                  std::span<const std::int64_t> recv_counts, const CallOptions& options,
                  CallSite site) override;
  Work broadcast(const Tensor& buffer, int root, const CallOptions& options,
                 CallSite site) override;
  Work reduce(const Tensor& buffer, ReduceOp op, int root, const CallOptions& options,
              CallSite site) override;
  Work gather(const Tensor& output, const Tensor& input, int root, const CallOptions& options,
              CallSite site) override;
  Work scatter(const Tensor& output, const Tensor& input, int root, const CallOptions& options,
               CallSite site) override;
  Work barrier(const CallOptions& options, CallSite site) override;
  Work send(const Tensor& buffer, int peer, const CallOptions& options, CallSite site) override;
  Work recv(const Tensor& buffer, int peer, const CallOptions& options, CallSite site) override;
  Work batch(std::span<const P2pOp> operations, const CallOptions& options, CallSite site) override;
  std::unique_ptr<Communicator> split(int color, int key, const std::string& name,
                                      CallSite site) override;

 private:
  using Operation = std::shared_ptr<MessageOperation>;

  void wait(void* token) override;
  void abandon(void* token) noexcept override;
  [[noreturn]] void refuse(const char* call, const std::string& what, const std::string& hint,
                           CallSite site) const override;

  // --- what calls have in common
  Operation make(CallRecord record, const CallOptions& options, MessagePlan plan,
                 const Tensor& output, const Tensor& input);
  Work post(const Operation& operation, const CallOptions& options);
  // By the library's own collective, if that is asked for.
  Work post_collective(const Operation& operation, CollectiveKind kind, const CallOptions& options,
                       std::span<const std::int64_t> send_counts = {},
                       std::span<const std::int64_t> receive_counts = {});
  Work transfer(const CallRecord& record, std::span<const P2pOp> halves,
                const CallOptions& options);
  [[nodiscard]] std::int64_t offset(int member) const {
    return offsets_[static_cast<std::size_t>(member)];
  }
  // By `offsets_`.
  [[nodiscard]] MessagePlan plan_of(CollectiveKind kind, int root) const;
  [[nodiscard]] MessagePlan all_reduce_plan(std::int64_t count, DType dtype);
  void divide_average(MessageOperation& operation, ReduceOp op) const;
  [[nodiscard]] Diagnosis diagnosis_of(const std::string& action, CallSite site) const;

  MessageRank& rank_;
  MessageStream& stream_;
  GroupLayout layout_;
  std::unique_ptr<DoubleTree> tree_;   // Built when first asked for.
  std::vector<std::int64_t> offsets_;  // Of the call being posted.
  std::vector<Operation> unwaited_;
  GroupTraffic traffic_;
};

}  // namespace shardsim

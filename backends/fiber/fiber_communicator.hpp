#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/checked_communicator.hpp"
#include "backends/fiber/fiber_group.hpp"

namespace shardsim {

/// One member's end of a group: posts operations on its stream and waits for them.
class FiberCommunicator final : public CheckedCommunicator, private WorkOwner {
 public:
  FiberCommunicator(FiberGroup& group, int member);
  ~FiberCommunicator() override;

  [[nodiscard]] int rank() const override { return member_; }
  [[nodiscard]] int size() const override { return group_.size(); }
  [[nodiscard]] const std::string& name() const override { return group_.name(); }
  [[nodiscard]] FiberGroup& group() const { return group_; }
  [[nodiscard]] const TrafficCounters* counters() const override { return &counters_; }
  /// Calls `visit(member, counters)` for this member and all it stands for.
  template <class Visitor>
  void for_each_member(const Visitor& visit) const {
    visit(member_, counters_);
    for (const StoodFor& other : others_) visit(other.member, other.counters);
  }

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
  void wait(void* operation) override;
  void abandon(void* operation) noexcept override;

  // Meets the prerequisites that come from this member: the compute stream (or `after`) and the
  // stream's previous operation.
  void order(FiberOperation& operation, const CallOptions& options);
  CollectiveOperation& open(CollectiveKind kind, CallRecord& record, const CallOptions& options);
  Work post(CollectiveOperation& operation, const CallOptions& options, const CallRecord& record,
            const Tensor& output, const Tensor& input);
  // The record is handed down by reference: a copy right after writing its fields costs more than
  // all the comparisons (the processor waits for each narrow store before a wide load).
  Work collective(CollectiveKind kind, CallRecord&& record, const CallOptions& options,
                  const Tensor& output, const Tensor& input);
  Work single(const P2pOp& half, const CallOptions& options, CallSite site);
  FiberOperation& post_transfer(const P2pOp& half, const CallOptions& options, CallSite site);
  FiberOperation& post_buffered_send(TransferOperation& transfer, const CallRecord& record,
                                     const Tensor& buffer, const CallOptions& options);
  // The members besides this one that it stands for; each may move something else.
  struct StoodFor {
    int member = 0;
    TrafficCounters counters;
  };
  void require_unfolded(const char* call) const;
  void account(FiberOperation& operation);
  void count(FiberOperation& operation, int member, const FiberOperation::Moved& moved,
             TrafficCounters& counters);

  [[noreturn]] void refuse(const char* call, const std::string& what, const std::string& hint,
                           CallSite site) const override;

  FiberGroup& group_;
  int member_;
  RankState& rank_;
  FiberOperation* last_ = nullptr;  // The stream's last operation, while it may be unresolved.
  Time stream_free_;
  TrafficCounters counters_;
  std::vector<StoodFor> others_;
  CallSite options_site_;  // Of the call being posted, for its errors.
  int track_ = -1;         // Index in the rank's trace; -1: not traced.
};

}  // namespace shardsim

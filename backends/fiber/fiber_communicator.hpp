#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/checked_communicator.hpp"
#include "backends/fiber/fiber_group.hpp"
#include "backends/fiber/fiber_stream.hpp"

namespace shardsim {

/// One member's end of a group: posts operations on its stream.
class FiberCommunicator final : public CheckedCommunicator {
 public:
  FiberCommunicator(FiberGroup& group, int member, CallSite made_at = {});
  ~FiberCommunicator() override;

  [[nodiscard]] int rank() const override { return member_; }
  [[nodiscard]] int size() const override { return group_.size(); }
  [[nodiscard]] const std::string& name() const override { return group_.name(); }
  [[nodiscard]] FiberGroup& group() const { return group_; }
  [[nodiscard]] const TrafficCounters* counters() const override { return &stream_->counters(); }

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
  void order(FiberOperation& operation, const CallOptions& options);
  CollectiveOperation& open(CollectiveKind kind, CallRecord& record, const CallOptions& options);
  Work post(CollectiveOperation& operation, const CallOptions& options, const CallRecord& record,
            const Tensor& output, const Tensor& input);
  // The record is handed down by reference: a copy right after writing its fields costs more than
  // all the comparisons (the processor waits for each narrow store before a wide load).
  Work collective(CollectiveKind kind, CallRecord&& record, const CallOptions& options,
                  const Tensor& output, const Tensor& input);
  Work single(const P2pOp& half, const CallOptions& options, CallSite site);
  // `handle`: what is waited for, if not the transfer itself.
  FiberOperation& post_transfer(const P2pOp& half, const CallOptions& options, CallSite site,
                                const FiberOperation* handle = nullptr);
  void watch(const FiberOperation& operation, const FiberOperation& handle,
             const CallRecord& record, const CallOptions& options, const Tensor& output,
             const Tensor& input, std::int64_t own_chunk) const;
  [[nodiscard]] std::int64_t own_offset(std::int64_t count, const CallOptions& options) const;
  void watch_collective(const CollectiveOperation& operation, const CallRecord& record,
                        const CallOptions& options, const Tensor& output,
                        const Tensor& input) const;
  FiberOperation& post_buffered_send(TransferOperation& transfer, const CallRecord& record,
                                     const Tensor& buffer, const CallOptions& options);
  void require_unfolded(const char* call) const;

  [[noreturn]] void refuse(const char* call, const std::string& what, const std::string& hint,
                           CallSite site) const override;

  FiberGroup& group_;
  int member_;
  RankState& rank_;
  std::unique_ptr<FiberStream> stream_;
  CallSite options_site_;  // Of the call being posted, for its errors.
  std::int64_t num_sends_ = 0;
};

}  // namespace shardsim

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/call.hpp"
#include "backends/fiber/fiber_group.hpp"
#include "backends/fiber/fiber_stream.hpp"

namespace shardsim {

/// One member's end of a group: posts operations on its stream.
class FiberCommunicator final : public Communicator {
 public:
  FiberCommunicator(FiberGroup& group, int member, CallSite made_at = {});
  ~FiberCommunicator() override;

  [[nodiscard]] int rank() const override { return member_; }
  [[nodiscard]] int size() const override { return group_.size(); }
  [[nodiscard]] const std::string& name() const override { return group_.name(); }
  [[nodiscard]] FiberGroup& group() const { return group_; }
  [[nodiscard]] const TrafficCounters* counters() const override { return &stream_->counters(); }

  Work post(const Call& call) override;
  std::unique_ptr<Communicator> split(int color, int key, const std::string& name,
                                      CallSite site) override;

  [[nodiscard]] Diagnosis diagnosis_of(const std::string& action, CallSite site) const override;

 private:
  CollectiveOperation& open(CollectiveKind kind, const CallRecord& record);
  Work enter(CollectiveOperation& operation, const Call& call);
  Work post_collective(const Call& call);
  Work post_batch(const Call& call);
  // `handle`: what is waited for, if not the transfer itself.
  FiberOperation& post_transfer(const P2pOp& half, const Call& call,
                                const FiberOperation* handle = nullptr);
  void watch(const FiberOperation& operation, const FiberOperation& handle,
             const CallRecord& record, const CallOptions& options, const Tensor& output,
             const Tensor& input, std::int64_t own_chunk) const;
  [[nodiscard]] std::int64_t own_offset(std::int64_t count, const CallOptions& options) const;
  void watch_collective(const CollectiveOperation& operation, const Call& call) const;
  FiberOperation& post_buffered_send(TransferOperation& transfer, const CallRecord& record,
                                     const Tensor& buffer, const CallOptions& options);
  void require_unfolded(const char* call) const;

  FiberGroup& group_;
  int member_;
  RankState& rank_;
  std::unique_ptr<FiberStream> stream_;
  std::int64_t num_sends_ = 0;
};

}  // namespace shardsim

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/checked_communicator.hpp"
#include "backends/nccl/nccl_backend.hpp"

namespace shardsim {

/// One process's end of a group over NCCL. Buffers stay on the host: each call copies what it sends
/// to the device and what it receives back. An average is NCCL's sum, divided on the host, so that
/// it has the bits of the other backends.
class NcclCommunicator final : public CheckedCommunicator, private WorkOwner {
 public:
  NcclCommunicator(NcclBackend& backend, NcclStream& stream);
  ~NcclCommunicator() override;

  [[nodiscard]] int rank() const override { return stream_.member; }
  [[nodiscard]] int size() const override { return static_cast<int>(stream_.members.size()); }
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
  using Operation = std::shared_ptr<NcclOperation>;

  void wait(void* token) override;
  void abandon(void* token) noexcept override;
  [[noreturn]] void refuse(const char* call, const std::string& what, const std::string& hint,
                           CallSite site) const override;

  // A collective: `plan` is what it moves.
  Work collective(CallRecord record, const CallOptions& options, NcclProgram program,
                  const MessagePlan& plan, const Tensor& output, const Tensor& input);
  Work transfer(CallRecord record, std::span<const P2pOp> halves, const CallOptions& options);
  Work post(const Operation& operation, const CallOptions& options);
  [[nodiscard]] NcclMember self() const { return {rank(), size(), offsets_}; }
  // By `offsets_`.
  [[nodiscard]] MessagePlan plan_of(CollectiveKind kind, int root) const;
  // Colors and keys of all members.
  [[nodiscard]] Tensor exchange_choices(int color, int key, const std::string& name, CallSite site);
  [[nodiscard]] Diagnosis diagnosis_of(const std::string& action, CallSite site) const;

  NcclBackend& backend_;
  NcclStream& stream_;
  std::vector<std::int64_t> offsets_;  // Of the call being posted.
  std::vector<Operation> unwaited_;
  GroupTraffic traffic_;
};

}  // namespace shardsim

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/call.hpp"
#include "backends/nccl/nccl_backend.hpp"

namespace shardsim {

/// One process's end of a group over NCCL. Buffers stay on the host: each call copies what it sends
/// to the device and what it receives back. An average is NCCL's sum, divided on the host, so that
/// it has the bits of the other backends.
class NcclCommunicator final : public Communicator, private WorkOwner {
 public:
  NcclCommunicator(NcclBackend& backend, NcclStream& stream);
  ~NcclCommunicator() override;

  [[nodiscard]] int rank() const override { return stream_.member; }
  [[nodiscard]] int size() const override { return static_cast<int>(stream_.members.size()); }
  [[nodiscard]] const std::string& name() const override { return stream_.name; }

  [[nodiscard]] const TrafficCounters* counters() const override { return &traffic_.counters; }

  Work post(const Call& call) override;
  std::unique_ptr<Communicator> split(int color, int key, const std::string& name,
                                      CallSite site) override;

  [[nodiscard]] Diagnosis diagnosis_of(const std::string& action, CallSite site) const override;

 private:
  using Operation = std::shared_ptr<NcclOperation>;

  void wait(void* token) override;
  void abandon(void* token) noexcept override;
  // A collective: `plan` is what it moves.
  Work collective(const CallRecord& record, const CallOptions& options, NcclProgram program,
                  const MessagePlan& plan, const Tensor& output, const Tensor& input);
  Work transfer(const Call& call);
  Work launch(const Operation& operation, const CallOptions& options);
  [[nodiscard]] NcclProgram program_of(const Call& call) const;
  [[nodiscard]] MessagePlan plan_of(const Call& call) const;
  [[nodiscard]] NcclMember self() const { return {rank(), size(), offsets_}; }
  // Colors and keys of all members.
  [[nodiscard]] Tensor exchange_choices(int color, int key, const std::string& name, CallSite site);

  NcclBackend& backend_;
  NcclStream& stream_;
  std::vector<std::int64_t> offsets_;  // For the call being posted.
  std::vector<Operation> unwaited_;
  GroupTraffic traffic_;
};

}  // namespace shardsim

#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/nccl/nccl_operation.hpp"
#include "backends/nccl/nccl_probe.hpp"

namespace shardsim {

struct NcclOptions : WaitOptions {
  int rank = 0;
  int num_ranks = 1;
  int device = 0;  ///< See device_of.
  /// See CudaDevice.
  std::int64_t slab_bytes = std::int64_t{64} << 20;
  /// How rank 0's key reaches the others: `put` on rank 0, `get` on the others, which returns when
  /// it is there. Values are letters and digits.
  std::function<void(const std::string& key, const std::string& value)> put;
  std::function<std::string(const std::string& key)> get;
};

/// Ranks of one machine take its visible GPUs in turn.
[[nodiscard]] inline int device_of(int local_rank, int num_gpus) { return local_rank % num_gpus; }

/// One group's communicator, its stream on the device, and its operations in the order they were
/// posted: they run one after the other.
struct NcclStream : ProcessStream {
  NcclComm comm = nullptr;
  CudaStream stream = nullptr;
  std::deque<std::shared_ptr<NcclOperation>> queue;  // Those that have not ended.
  bool closed = false;                               // Its communicator object is gone.
};

/// One process of a run over NCCL: one thread that makes all its calls, in program order over all
/// groups, and watches over them while it waits. When anything fails, all communicators are aborted
/// before the exception leaves.
class NcclBackend final : public ProcessRank {
 public:
  /// Forms the communicator of all ranks; all must do so. The environment (nccl_environment) must
  /// be set before. `cuda` and `nccl` are usable.
  NcclBackend(std::shared_ptr<const CudaLibrary> cuda, std::shared_ptr<const NcclLibrary> nccl,
              NcclOptions options);
  ~NcclBackend() override;

  [[nodiscard]] int rank() const override { return options_.rank; }
  [[nodiscard]] std::unique_ptr<Communicator> world() override;
  /// Also ends the communicators: NCCL asks that all ranks do, so all must call it.
  void finish() override;

  // For communicators.
  void post(NcclStream& stream, const std::shared_ptr<NcclOperation>& operation);
  /// Returns when `operation` has ended. Throws a CommunicationError (TIMEOUT) at the deadline.
  void wait(NcclStream& stream, const NcclOperation& operation);
  bool poll(const NcclStream& stream, const NcclOperation& operation);
  /// The part of `parent` with the given members (world ranks), of which this is `member`.
  /// REQUIRES: nothing is under way on `parent`.
  NcclStream& split(NcclStream& parent, int color, int key, const std::string& name,
                    std::vector<int> members, int member);
  /// Takes part in a split of `parent` without joining a part. REQUIRES: as for split.
  void split_away(NcclStream& parent);
  void close(NcclStream& stream, GroupTraffic traffic);

 private:
  struct Launch {
    NcclStream* stream;
    std::shared_ptr<NcclOperation> operation;
  };

  NcclStream& open(const std::string& name, std::vector<int> members, int member);
  void exchange_id(NcclUniqueId& id);
  void form_world();
  // Calls ncclCommSplit and returns when `parent` is at rest again; the new part may still be busy.
  void split_comm(NcclStream& parent, int color, int key, NcclComm& part);
  // Until `comm` is no longer in progress. `what`: for the message at the deadline.
  void settle(const NcclStream& stream, const char* what);
  [[nodiscard]] bool in_progress(const NcclStream& stream) const;
  void check_place(const NcclStream& stream) const;

  bool launch();
  bool launch(const Launch& next);
  [[nodiscard]] bool may_start(const NcclOperation& operation) const;
  bool collect();
  // Goes on until `done` says so; `time_out` throws.
  void go_on_until(const std::function<bool()>& done, const std::function<void()>& time_out);
  void check_streams() const;
  [[nodiscard]] const WaitOptions& waiting() const override { return options_; }
  // Runs `body`; aborts all communicators if it throws.
  template <class Body>
  void guarded(const Body& body) {
    try {
      check_alive();
      body();
    } catch (...) {
      give_up();
      throw;
    }
  }
  void end_communicators();
  void give_up() noexcept;
  void check_alive() const;
  [[noreturn]] void time_out(const NcclStream& stream, const NcclOperation& operation) const;

  std::shared_ptr<const CudaLibrary> cuda_;
  std::shared_ptr<const NcclLibrary> nccl_;
  NcclOptions options_;
  CudaDevice device_;
  std::vector<std::unique_ptr<NcclStream>> streams_;
  std::deque<Launch> launches_;  // Not yet on the device, all groups in program order.
  bool given_up_ = false;
};

/// One process's end of a group over NCCL. Buffers stay on the host: each call copies what it sends
/// to the device and what it receives back. An average is NCCL's sum, divided on the host, so that
/// it has the bits of the other backends.
class NcclCommunicator final : public ProcessCommunicator {
 public:
  NcclCommunicator(NcclBackend& backend, NcclStream& stream);
  ~NcclCommunicator() override;

  Work post(const Call& call) override;
  std::unique_ptr<Communicator> split(int color, int key, const std::string& name,
                                      CallSite site) override;

 private:
  using Operation = std::shared_ptr<NcclOperation>;

  void await(const ProcessOperation& operation) override {
    backend_.wait(stream_, static_cast<const NcclOperation&>(operation));
  }
  bool poll(const ProcessOperation& operation) override {
    return backend_.poll(stream_, static_cast<const NcclOperation&>(operation));
  }
  // A collective: `plan` is what it moves.
  Work collective(const CallRecord& record, const CallOptions& options, NcclProgram program,
                  const MessagePlan& plan, const Tensor& output, const Tensor& input);
  Work transfer(const Call& call);
  Work launch(const Operation& operation);
  [[nodiscard]] NcclProgram program_of(const Call& call) const;
  [[nodiscard]] NcclMember self() const { return {rank(), size(), offsets_}; }
  // Colors and keys of all members.
  [[nodiscard]] Tensor exchange_choices(int color, int key, const std::string& name, CallSite site);

  NcclBackend& backend_;
  NcclStream& stream_;
};

}  // namespace shardsim

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/call.hpp"
#include "backends/communicator.hpp"
#include "backends/message/message_plan.hpp"
#include "backends/nccl/cuda_library.hpp"
#include "backends/nccl/nccl_library.hpp"
#include "backends/nccl/nccl_program.hpp"
#include "backends/process_backend.hpp"
#include "backends/traffic_counters.hpp"

namespace shardsim {

/// Traffic of one call of one member, by our own count: NCCL's ring, chain, star and pairwise
/// messages are those of the plans (message_plan.hpp), whose sums are the closed formulas.
struct CallTraffic {
  TrafficCounters moved;
  LinkTable links;  ///< Payload only; ranks in the group.
};

/// `width`: bytes per element of the plan's slices. `padding_at`: elements of the full buffer.
[[nodiscard]] CallTraffic count_traffic(const MessagePlan& plan, int member,
                                        const CallRecord& record, std::int64_t width,
                                        std::span<const ElementRange> padding_at);

/// Traffic of halves of point-to-point transfers.
[[nodiscard]] CallTraffic count_traffic(std::span<const P2pOp> halves, int member,
                                        const CallRecord& record);

/// One call of this process on its way. It holds device resources from `start` to the end. Buffers
/// are neither read nor written before `start`.
class NcclOperation : public std::enable_shared_from_this<NcclOperation> {
 public:
  enum class State : std::uint8_t {
    queued,     ///< Not yet its turn.
    enqueuing,  ///< NCCL's functions are called; it has not said yet that they are on the stream.
    running,    ///< On the device's stream.
    returning,  ///< Received data are being copied back.
    ended,
  };

  NcclOperation(const CallRecord& record, std::int64_t sequence, NcclProgram program,
                CallTraffic traffic)
      : record_(record),
        sequence_(sequence),
        program_(std::move(program)),
        traffic_(std::move(traffic)) {}

  /// Keeps the storage of a buffer until the end.
  void keep(const Tensor& buffer) { buffers_.push_back(buffer); }
  void set_halves(std::vector<CallWatch::Half> halves) { halves_ = std::move(halves); }
  /// Divides what is copied back by this, once. 1: does not.
  void set_divisor(int divisor) { divisor_ = divisor; }
  /// Starts when `earlier` has ended.
  void follow(std::shared_ptr<NcclOperation> earlier) { after_ = std::move(earlier); }

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] bool ended() const { return state_ == State::ended; }
  /// Whether what `earlier` still has to bring back is part of what this has to send.
  [[nodiscard]] bool needs(const NcclOperation& earlier) const;

  /// Copies to the device and calls NCCL's functions, on `stream` of `comm`. REQUIRES: queued.
  void start(CudaDevice& device, const NcclLibrary& nccl, NcclComm comm, CudaStream stream,
             const std::string& group);
  /// NCCL has put everything on the stream. REQUIRES: enqueuing.
  void enqueued(CudaDevice& device, CudaStream stream);
  /// Goes on as far as it can; true if anything happened. REQUIRES: running or later.
  bool advance(CudaDevice& device);

  [[nodiscard]] const CallRecord& record() const { return record_; }
  [[nodiscard]] std::int64_t sequence() const { return sequence_; }
  [[nodiscard]] const std::vector<CallWatch::Half>& halves() const { return halves_; }
  [[nodiscard]] const CallTraffic& traffic() const { return traffic_; }

 private:
  void call(const NcclLibrary& nccl, const NcclCall& call, NcclComm comm, CudaStream stream,
            const std::string& group) const;
  void finish(CudaDevice& device);

  CallRecord record_;
  std::int64_t sequence_;
  NcclProgram program_;
  CallTraffic traffic_;
  std::vector<Tensor> buffers_;
  std::vector<CallWatch::Half> halves_;
  int divisor_ = 1;
  std::shared_ptr<NcclOperation> after_;
  State state_ = State::queued;
  std::byte* memory_ = nullptr;
  CudaEvent copied_in_ = nullptr;
  CudaEvent done_ = nullptr;
  CudaEvent copied_out_ = nullptr;
};

}  // namespace shardsim

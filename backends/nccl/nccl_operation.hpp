#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/message/process_rank.hpp"
#include "backends/nccl/cuda_library.hpp"
#include "backends/nccl/nccl_library.hpp"
#include "backends/nccl/nccl_program.hpp"

namespace shardsim {

/// One call of this process on its way. It holds device resources from `start` to the end. Buffers
/// are neither read nor written before `start`.
class NcclOperation final : public ProcessOperation {
 public:
  enum class State : std::uint8_t {
    queued,     ///< Not yet its turn.
    enqueuing,  ///< NCCL's functions are called; it has not said yet that they are on the stream.
    running,    ///< On the device's stream.
    returning,  ///< Received data are being copied back.
    ended,
  };

  NcclOperation(const CallRecord& record, std::int64_t sequence, NcclProgram program)
      : ProcessOperation(record, sequence), program_(std::move(program)) {}

  /// Keeps the storage of a buffer until the end.
  void keep(const Tensor& buffer) { buffers_.push_back(buffer); }

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] bool ended() const override { return state_ == State::ended; }
  /// Whether what `earlier` still has to bring back is part of what this has to send.
  [[nodiscard]] bool needs(const NcclOperation& earlier) const;

  /// Copies to the device and calls NCCL's functions, on `stream` of `comm`. REQUIRES: queued.
  void start(CudaDevice& device, const NcclLibrary& nccl, NcclComm comm, CudaStream stream,
             const std::string& group);
  /// NCCL has put everything on the stream. REQUIRES: enqueuing.
  void enqueued(CudaDevice& device, CudaStream stream);
  /// Goes on as far as it can; true if anything happened. REQUIRES: running or later.
  bool advance(CudaDevice& device);

 private:
  void call(const NcclLibrary& nccl, const NcclCall& call, NcclComm comm, CudaStream stream,
            const std::string& group) const;
  void finish(CudaDevice& device);

  NcclProgram program_;
  std::vector<Tensor> buffers_;
  State state_ = State::queued;
  std::byte* memory_ = nullptr;
  CudaEvent copied_in_ = nullptr;
  CudaEvent done_ = nullptr;
  CudaEvent copied_out_ = nullptr;
};

}  // namespace shardsim

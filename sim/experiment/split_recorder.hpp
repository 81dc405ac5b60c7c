#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/communicator.hpp"
#include "backends/fiber/fold.hpp"

namespace shardsim {

/// The communicator of all ranks, as one that does not run is given it: it writes down how the rank
/// splits it, and can do nothing else. What splits return can be split and dropped.
class SplitRecorder final : public Communicator {
 public:
  /// `choices`: gets one entry per split, and outlives this; null: nobody wants to know.
  SplitRecorder(int rank, int size, std::vector<SplitChoice>* choices)
      : rank_(rank), size_(size), choices_(choices) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] const std::string& name() const override;
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key, const std::string& name,
                                                    CallSite site) override;

  // Of all others: throw an internal Error.
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

 private:
  int rank_;
  int size_;
  std::vector<SplitChoice>* choices_;
};

}  // namespace shardsim

#pragma once

#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "sim/hardware/collective.hpp"
#include "sim/hardware/network_model.hpp"

#include "backends/communicator.hpp"

// A group of ranks as its first member sees it when all the others do the same at the same moment:
// every call starts at once on a stream of its own, costs what the network says, and moves nothing.
// That is the least it can cost in a run, where others may come later.
namespace shardsim {

/// The compute stream of the one rank there is.
struct ProbeClock {
  Time now;
  Time waited;  ///< Of that, for communication.
};

class PricedGroup final : public Communicator, private WorkOwner {
 public:
  /// All outlive the group. `network` null: calls take no time.
  PricedGroup(ProbeClock& clock, NetworkModel* network, const GroupLayout& layout,
              Algorithm algorithm, std::string name);

  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return layout_.size(); }
  [[nodiscard]] const std::string& name() const override { return name_; }

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
  /// Throws an internal Error: groups of groups are not probed.
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key, const std::string& name,
                                                    CallSite site) override;

 private:
  void wait(void* operation) override;
  void abandon(void* operation) noexcept override;
  [[nodiscard]] Work post(Time duration, const CallOptions& options);
  [[nodiscard]] Work collective(CollectiveKind kind, std::int64_t bytes, std::int64_t largest_chunk,
                                const CallOptions& options);
  [[nodiscard]] Time transfer(const Tensor& buffer, int peer) const;

  ProbeClock& clock_;
  NetworkModel* network_;
  const GroupLayout& layout_;
  DoubleTree tree_;
  Algorithm algorithm_;
  std::string name_;
  Time free_;              // When the stream is.
  std::deque<Time> ends_;  // Of all calls: addresses stay.
};

}  // namespace shardsim

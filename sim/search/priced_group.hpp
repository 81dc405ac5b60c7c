#pragma once

#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "sim/hardware/collective.hpp"
#include "sim/hardware/network_model.hpp"

#include "backends/communicator.hpp"

// A group of ranks as its first member sees it if all others do the same at the same moment: every
// call starts at once on a stream of its own, takes the network's time, and moves nothing. That is
// its least cost in a run, where others may come later.
namespace shardsim {

/// The compute stream of the only rank.
struct ProbeClock {
  Time now;
  Time waited;  ///< The part of it spent in communication.
};

class PricedGroup final : public Communicator, private WorkOwner {
 public:
  /// All outlive the group. `network` null: calls take no time.
  PricedGroup(ProbeClock& clock, NetworkModel* network, const GroupLayout& layout,
              Algorithm algorithm, std::string name);

  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return layout_.size(); }
  [[nodiscard]] const std::string& name() const override { return name_; }

  Work post(const Call& call) override;
  /// Throws an internal Error: groups of groups are not probed.
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key, const std::string& name,
                                                    CallSite site) override;

 private:
  void wait(void* operation) override;
  void abandon(void* operation) noexcept override;
  [[nodiscard]] Work take(Time duration, const CallOptions& options);
  [[nodiscard]] Time duration_of(const Call& call) const;
  [[nodiscard]] Time transfer(const P2pOp& half) const;

  ProbeClock& clock_;
  NetworkModel* network_;
  const GroupLayout& layout_;
  DoubleTree tree_;
  Algorithm algorithm_;
  std::string name_;
  Time free_;              // The time at which the stream is free.
  std::deque<Time> ends_;  // The ends of all calls: addresses stay.
};

}  // namespace shardsim

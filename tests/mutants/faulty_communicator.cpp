#include "tests/mutants/faulty_communicator.hpp"

#include <utility>

namespace shardsim::test {

namespace {

class FaultyCommunicator final : public Communicator {
 public:
  FaultyCommunicator(Communicator& world, std::shared_ptr<const Faults> faults)
      : inner_(world), world_(world), faults_(std::move(faults)) {}
  FaultyCommunicator(std::unique_ptr<Communicator> inner, Communicator& world,
                     std::shared_ptr<const Faults> faults)
      : owned_(std::move(inner)), inner_(*owned_), world_(world), faults_(std::move(faults)) {}

  [[nodiscard]] int rank() const override { return inner_.rank(); }
  [[nodiscard]] int size() const override { return inner_.size(); }
  [[nodiscard]] const std::string& name() const override { return inner_.name(); }

  Work all_reduce(const Tensor& buffer, ReduceOp op, const CallOptions& options,
                  CallSite site) override {
    if (faults_->all_reduce) return faults_->all_reduce(caller(), buffer, op, options, site);
    return inner_.all_reduce(buffer, op, options, site);
  }
  Work reduce_scatter(const Tensor& output, const Tensor& input, ReduceOp op,
                      const CallOptions& options, CallSite site) override {
    if (faults_->reduce_scatter) {
      return faults_->reduce_scatter(caller(), output, input, op, options, site);
    }
    return inner_.reduce_scatter(output, input, op, options, site);
  }
  Work all_gather(const Tensor& output, const Tensor& input, const CallOptions& options,
                  CallSite site) override {
    if (faults_->all_gather) return faults_->all_gather(caller(), output, input, options, site);
    return inner_.all_gather(output, input, options, site);
  }
  Work all_to_all(const Tensor& output, const Tensor& input,
                  std::span<const std::int64_t> send_counts,
                  std::span<const std::int64_t> recv_counts, const CallOptions& options,
                  CallSite site) override {
    if (faults_->before_all_to_all) faults_->before_all_to_all(caller(), input, options);
    if (faults_->all_to_all) {
      return faults_->all_to_all(caller(), output, input, send_counts, recv_counts, options, site);
    }
    return inner_.all_to_all(output, input, send_counts, recv_counts, options, site);
  }
  Work broadcast(const Tensor& buffer, int root, const CallOptions& options,
                 CallSite site) override {
    if (faults_->broadcast) return faults_->broadcast(caller(), buffer, root, options, site);
    return inner_.broadcast(buffer, root, options, site);
  }
  Work reduce(const Tensor& buffer, ReduceOp op, int root, const CallOptions& options,
              CallSite site) override {
    return inner_.reduce(buffer, op, root, options, site);
  }
  Work gather(const Tensor& output, const Tensor& input, int root, const CallOptions& options,
              CallSite site) override {
    return inner_.gather(output, input, root, options, site);
  }
  Work scatter(const Tensor& output, const Tensor& input, int root, const CallOptions& options,
               CallSite site) override {
    return inner_.scatter(output, input, root, options, site);
  }
  Work barrier(const CallOptions& options, CallSite site) override {
    return inner_.barrier(options, site);
  }
  Work send(const Tensor& buffer, int peer, const CallOptions& options, CallSite site) override {
    if (faults_->send) return faults_->send(caller(), buffer, peer, options, site);
    return inner_.send(buffer, peer, options, site);
  }
  Work recv(const Tensor& buffer, int peer, const CallOptions& options, CallSite site) override {
    if (faults_->recv) return faults_->recv(caller(), buffer, peer, options, site);
    return inner_.recv(buffer, peer, options, site);
  }
  Work batch(std::span<const P2pOp> operations, const CallOptions& options,
             CallSite site) override {
    if (faults_->batch) return faults_->batch(caller(), operations, options, site);
    return inner_.batch(operations, options, site);
  }
  std::unique_ptr<Communicator> split(int color, int key, const std::string& name,
                                      CallSite site) override {
    std::unique_ptr<Communicator> made = faults_->split
                                             ? faults_->split(caller(), color, key, name, site)
                                             : inner_.split(color, key, name, site);
    if (made == nullptr) return nullptr;
    return std::make_unique<FaultyCommunicator>(std::move(made), world_, faults_);
  }

 private:
  [[nodiscard]] Caller caller() const { return {inner_, world_.rank(), world_}; }

  std::unique_ptr<Communicator> owned_;  // Null for the communicator of all ranks.
  Communicator& inner_;
  Communicator& world_;  // Of all ranks, without the bugs.
  std::shared_ptr<const Faults> faults_;
};

}  // namespace

std::function<std::unique_ptr<Communicator>(Communicator&)> plant(Faults faults) {
  auto shared = std::make_shared<const Faults>(std::move(faults));
  return
      [shared](Communicator& world) { return std::make_unique<FaultyCommunicator>(world, shared); };
}

}  // namespace shardsim::test

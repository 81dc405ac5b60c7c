#include "tests/mutants/faulty_communicator.hpp"

#include <utility>

#include "backends/wrapping_communicator.hpp"

namespace shardsim::test {

namespace {

class FaultyCommunicator final : public WrappingCommunicator {
 public:
  FaultyCommunicator(Communicator& world, std::shared_ptr<const Faults> faults)
      : WrappingCommunicator(world), world_(world), faults_(std::move(faults)) {}
  FaultyCommunicator(std::unique_ptr<Communicator> inner, Communicator& world,
                     std::shared_ptr<const Faults> faults)
      : WrappingCommunicator(std::move(inner)), world_(world), faults_(std::move(faults)) {}

  Work post(const Call& call) override {
    const CallOptions& options = *call.options;
    const CallSite site = call.record.site;
    switch (call.kind) {
      case CallKind::collective:
        return collective(call, options, site);
      case CallKind::send:
        if (!faults_->send) break;
        return faults_->send(caller(), call.halves[0].buffer, call.record.root, options, site);
      case CallKind::recv:
        if (!faults_->recv) break;
        return faults_->recv(caller(), call.halves[0].buffer, call.record.root, options, site);
      case CallKind::batch:
        if (!faults_->batch) break;
        return faults_->batch(caller(), call.halves, options, site);
    }
    return inner().post(call);
  }
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key, const std::string& name,
                                                    CallSite site) override {
    std::unique_ptr<Communicator> made = faults_->split
                                             ? faults_->split(caller(), color, key, name, site)
                                             : inner().split(color, key, name, site);
    if (made == nullptr) return nullptr;
    return std::make_unique<FaultyCommunicator>(std::move(made), world_, faults_);
  }

 private:
  [[nodiscard]] Caller caller() const { return {inner(), world_.rank(), world_}; }

  Work collective(const Call& call, const CallOptions& options, CallSite site) {
    const Tensor& output = *call.output;
    const Tensor& input = *call.input;
    const ReduceOp op = call.record.reduce;
    switch (call.collective) {
      case CollectiveKind::all_reduce:
        if (!faults_->all_reduce) break;
        return faults_->all_reduce(caller(), output, op, options, site);
      case CollectiveKind::reduce_scatter:
        if (!faults_->reduce_scatter) break;
        return faults_->reduce_scatter(caller(), output, input, op, options, site);
      case CollectiveKind::all_gather:
        if (!faults_->all_gather) break;
        return faults_->all_gather(caller(), output, input, options, site);
      case CollectiveKind::all_to_all:
        if (faults_->before_all_to_all) faults_->before_all_to_all(caller(), input, options);
        if (!faults_->all_to_all) break;
        return faults_->all_to_all(caller(), output, input, call.send_counts, call.recv_counts,
                                   options, site);
      case CollectiveKind::broadcast:
        if (!faults_->broadcast) break;
        return faults_->broadcast(caller(), output, call.record.root, options, site);
      default:
        break;
    }
    return inner().post(call);
  }

  Communicator& world_;  // All ranks, without the bugs.
  std::shared_ptr<const Faults> faults_;
};

}  // namespace

std::function<std::unique_ptr<Communicator>(Communicator&)> plant(Faults faults) {
  auto shared = std::make_shared<const Faults>(std::move(faults));
  return
      [shared](Communicator& world) { return std::make_unique<FaultyCommunicator>(world, shared); };
}

}  // namespace shardsim::test

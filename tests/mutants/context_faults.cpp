#include "tests/mutants/context_faults.hpp"

#include <array>
#include <cstring>
#include <map>
#include <utility>

#include "tests/mutants/copies.hpp"

namespace shardsim::test {

namespace {

constexpr const char* kKeys = "keys and values";
constexpr const char* kGradients = "key and value gradients";

Tensor like(const Tensor& tensor) {
  return Tensor::allocate(nullptr, MemoryCategory::comm, tensor.shape(), tensor.dtype(),
                          !tensor.has_data());
}

// Hops with `label`, counted per rank, become what `change` makes of them.
using HopChange = std::function<Work(const Caller&, std::span<const P2pOp>, int number,
                                     const CallOptions&, CallSite)>;
Faults hopping(const char* label, const HopChange& change) {
  const auto counts = std::make_shared<std::map<int, int>>();
  Faults faults;
  faults.batch = [=](const Caller& caller, std::span<const P2pOp> operations,
                     const CallOptions& options, CallSite site) {
    if (options.label != std::string(label)) return caller.to.batch(operations, options, site);
    const int number = (*counts)[caller.world_rank]++;
    return change(caller, operations, number, options, site);
  };
  return faults;
}

// Leaves out what an operation called `name_` would compute.
class ForgetfulRuntime final : public Runtime {
 public:
  ForgetfulRuntime(Runtime& inner, std::string name) : inner_(inner), name_(std::move(name)) {}
  [[nodiscard]] bool has_data() const override {
    return !std::exchange(forgets_, false) && inner_.has_data();
  }
  [[nodiscard]] MemoryLedger* ledger() override { return inner_.ledger(); }

 protected:
  void charge(const ComputeOp& op) override {
    inner_.compute(op, [] {});
    forgets_ = op.name == name_;
  }

 private:
  Runtime& inner_;
  std::string name_;
  mutable bool forgets_ = false;
};

class ForgetfulModel final : public ModelWrapper {
 public:
  ForgetfulModel(const Model& model, std::string name)
      : ModelWrapper(model), name_(std::move(name)) {}
  Tensor forward(int module, const ModelContext& context, const Tensor& input, const Batch& batch,
                 Saved& saved) const override {
    ForgetfulRuntime runtime(context.runtime, name_);
    return inner_.forward(module, {runtime, context.parameters, context.parallel, context.later},
                          input, batch, saved);
  }
  Tensor backward(int module, const ModelContext& context, const Tensor& output_gradient,
                  const Batch& batch, Saved& saved) const override {
    ForgetfulRuntime runtime(context.runtime, name_);
    return inner_.backward(module, {runtime, context.parameters, context.parallel, context.later},
                           output_gradient, batch, saved);
  }

 private:
  std::string name_;
};

}  // namespace

Faults stale_keys(const Hops& hops) {
  const auto last = std::make_shared<std::map<int, Tensor>>();
  return hopping(kKeys, [=](const Caller& caller, std::span<const P2pOp> operations, int number,
                            const CallOptions& options, CallSite site) {
    const Tensor& received = operations[1].buffer;
    if (number % (2 * hops.forward) < hops.forward) {
      (*last)[caller.world_rank] = received;
      return caller.to.batch(operations, options, site);
    }
    Tensor& stale = (*last)[caller.world_rank];
    if (number % hops.forward == 0) {  // Not the run's memory any more.
      const Tensor own = like(stale);
      copy(own, stale);
      stale = own;
    }
    copy(received, stale);
    const std::array<P2pOp, 2> elsewhere = {
        operations[0], {P2pOp::Kind::recv, like(received), operations[1].peer}};
    return caller.to.batch(elsewhere, options, site);
  });
}

Faults keys_from_behind() {
  return hopping(kKeys, [](const Caller& caller, std::span<const P2pOp> operations, int /*number*/,
                           const CallOptions& options, CallSite site) {
    std::array<P2pOp, 2> turned = {operations[0], operations[1]};
    std::swap(turned[0].peer, turned[1].peer);
    return caller.to.batch(turned, options, site);
  });
}

Faults lost_gradient_hop(const Hops& hops, int which) {
  return hopping(kGradients,
                 [=](const Caller& caller, std::span<const P2pOp> operations, int number,
                     const CallOptions& options, CallSite site) -> Work {
                   if (number % hops.per_layer == which) return {};
                   return caller.to.batch(operations, options, site);
                 });
}

Faults dropped_exchange(const std::string& label) {
  Faults faults;
  faults.all_to_all = [=](const Caller& caller, const Tensor& output, const Tensor& input,
                          std::span<const std::int64_t> send_counts,
                          std::span<const std::int64_t> recv_counts, const CallOptions& options,
                          CallSite site) -> Work {
    if (options.label == label) return {};
    return caller.to.all_to_all(output, input, send_counts, recv_counts, options, site);
  };
  return faults;
}

Faults shifted_exchange(const std::string& label) {
  Faults faults;
  faults.all_to_all = [=](const Caller& caller, const Tensor& output, const Tensor& input,
                          std::span<const std::int64_t> send_counts,
                          std::span<const std::int64_t> recv_counts, const CallOptions& options,
                          CallSite site) {
    if (options.label != label || !input.has_data()) {
      return caller.to.all_to_all(output, input, send_counts, recv_counts, options, site);
    }
    const Tensor shifted = like(input);
    const std::int64_t part = input.numel() / caller.to.size();
    for (std::int64_t i = 0; i < input.numel(); ++i) {
      shifted.set((i + part) % input.numel(), input.get(i));
    }
    return caller.to.all_to_all(output, shifted, send_counts, recv_counts, options, site);
  };
  return faults;
}

std::unique_ptr<Model> without_operation(const Model& model, std::string name) {
  return std::make_unique<ForgetfulModel>(model, std::move(name));
}

}  // namespace shardsim::test

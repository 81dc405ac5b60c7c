#include "tests/mutants/muon_faults.hpp"

#include <memory>
#include <string_view>
#include <utility>

#include "strategies/gradient_sync/gradient_sync_wrapper.hpp"

namespace shardsim::test {

namespace {

struct OtherSync {
  SyncPlan plan;
  std::unique_ptr<GradientSync> sync;
};

class OtherMuonSync final : private OtherSync, public GradientSyncWrapper {
 public:
  OtherMuonSync(SyncPlan plan, const SyncOfRank& of)
      : OtherSync{std::move(plan), nullptr}, GradientSyncWrapper(make(of)) {}

 private:
  GradientSync& make(const SyncOfRank& of) {
    sync = make_gradient_sync(of.plan.options().zero_stage, plan, of.runtime, of.mesh);
    return *sync;
  }
};

}  // namespace

WrapSync with_muon(const std::function<void(MuonOptions&)>& change) {
  return [change](const SyncOfRank& of) {
    SyncPlan plan = of.plan.sync_plan(of.mesh.pp());
    change(plan.muon.value());
    return std::make_unique<OtherMuonSync>(std::move(plan), of);
  };
}

Faults without_gram_sums() {
  return {.all_reduce = [](const Caller& caller, const Tensor& buffer, ReduceOp op,
                           const CallOptions& options, CallSite site) {
    if (options.label == std::string_view("muon gram")) return Work();
    return caller.to.all_reduce(buffer, op, options, site);
  }};
}

}  // namespace shardsim::test

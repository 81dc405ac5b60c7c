#include "tests/mutants/norm_faults.hpp"

#include <cmath>
#include <utility>

#include "strategies/gradient_sync/gradient_sync_wrapper.hpp"
#include "strategies/gradient_sync/whole_state.hpp"

namespace shardsim::test {

namespace {

class OtherNorm final : public GradientSyncWrapper {
 public:
  OtherNorm(const SyncOfRank& of, Counts counts)
      : GradientSyncWrapper(of.inner),
        runtime_(of.runtime),
        mesh_(of.mesh),
        model_(*of.plan.part(of.mesh.place()).model),
        is_sharded_(of.plan.options().zero_stage > 0),
        counts_(std::move(counts)) {}

  double gradient_norm(NormType /*two*/) override {
    double squares = 0.0;
    inner_.visit(StateKind::gradient, [&](const StatePiece& piece) {
      const ParameterSpec& spec = model_.parameters()[static_cast<std::size_t>(piece.parameter)];
      if (!counts_(spec, mesh_.place())) return;
      for (std::int64_t i = 0; i < piece.values.numel(); ++i) {
        squares += piece.values.get(i) * piece.values.get(i);
      }
    });
    return std::sqrt(sum_over_owners(squares));
  }

 private:
  [[nodiscard]] double sum_over_owners(double value) {
    const Tensor scalar = runtime_.allocate(MemoryCategory::comm, {1}, DType::fp64);
    runtime_.write_scalar(scalar, value);
    for (Communicator* const axis :
         {is_sharded_ ? mesh_.replicas().shard : nullptr, mesh_.tp_group(), mesh_.pp_group()}) {
      if (axis == nullptr) continue;
      axis->all_reduce(scalar, ReduceOp::sum,
                       {.label = "grad_norm", .traffic = TrafficClass::scalar})
          .wait();
    }
    return runtime_.read_scalar(scalar);
  }

  Runtime& runtime_;
  Mesh& mesh_;
  const Model& model_;
  bool is_sharded_;
  Counts counts_;
};

}  // namespace

bool counts_on_every_tensor_parallel_rank(const ParameterSpec& spec, const MeshPlace& place) {
  return !spec.tied || place.pp == 0;
}

bool counts_every_copy(const ParameterSpec& spec, const MeshPlace& place) {
  return spec.is_copied() || is_main_copy(spec, place);
}

bool counts_on_both_stages(const ParameterSpec& spec, const MeshPlace& place) {
  return spec.is_split() || place.tp == 0;
}

bool counts_split_alone(const ParameterSpec& spec, const MeshPlace& place) {
  return spec.is_split() && is_main_copy(spec, place);
}

WrapSync norm_of(const Counts& counts) {
  return [counts](const SyncOfRank& of) { return std::make_unique<OtherNorm>(of, counts); };
}

}  // namespace shardsim::test

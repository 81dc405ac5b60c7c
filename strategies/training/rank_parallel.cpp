#include "strategies/training/rank_parallel.hpp"

#include "strategies/sharding/context_parallel.hpp"
#include "strategies/sharding/expert_parallel.hpp"
#include "strategies/sharding/tensor_parallel.hpp"

namespace shardsim {

RankParallel::RankParallel(const ModelOptions& options, Mesh& mesh) {
  if (mesh.tp_group() != nullptr) {
    tensor_ = std::make_unique<TensorParallel>(*mesh.tp_group(), options.sequence_parallel);
  }
  if (mesh.cp_group() != nullptr) {
    context_ = std::make_unique<ContextParallel>(*mesh.cp_group(), options.context_attention,
                                                 options.ulysses_degree);
  }
  if (options.moe.num_experts > 0) {
    expert_ = std::make_unique<ExpertParallel>(mesh, options.sequence_parallel);
  }
}

RankParallel::RankParallel(RankParallel&&) noexcept = default;
RankParallel::~RankParallel() = default;

ModelParallel RankParallel::ends() const {
  return {.tensor = tensor_.get(), .context = context_.get(), .expert = expert_.get()};
}

}  // namespace shardsim

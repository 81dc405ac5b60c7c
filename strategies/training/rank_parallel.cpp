#include "strategies/training/rank_parallel.hpp"

#include "strategies/sharding/expert_parallel.hpp"
#include "strategies/sharding/tensor_parallel.hpp"

namespace shardsim {

RankParallel::RankParallel(const ModelOptions& options, Mesh& mesh) {
  if (mesh.tp_group() != nullptr) {
    tensor_ = std::make_unique<TensorParallel>(*mesh.tp_group(), options.sequence_parallel);
  }
  if (options.moe.num_experts > 0) {
    expert_ = std::make_unique<ExpertParallel>(mesh, options.sequence_parallel);
  }
}

RankParallel::RankParallel(RankParallel&&) noexcept = default;
RankParallel::~RankParallel() = default;

ModelParallel RankParallel::ends() const {
  return {.tensor = tensor_.get(), .context = nullptr, .expert = expert_.get()};
}

}  // namespace shardsim

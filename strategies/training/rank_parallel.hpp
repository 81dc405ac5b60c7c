#pragma once

#include <memory>

#include "strategies/mesh.hpp"
#include "strategies/model/context.hpp"
#include "strategies/model/make_model.hpp"

namespace shardsim {

/// A rank's ends of the groups in which it computes layers, made from its mesh: one object per axis
/// that the mesh has. Every rank of the mesh must make its own at the same point of the program.
class RankParallel {
 public:
  /// `options`: of the whole model. `mesh` must outlive it.
  RankParallel(const ModelOptions& options, Mesh& mesh);
  RankParallel(RankParallel&&) noexcept;
  ~RankParallel();

  [[nodiscard]] ModelParallel ends() const;

 private:
  std::unique_ptr<TensorParallel> tensor_;
  std::unique_ptr<ContextParallel> context_;
  std::unique_ptr<ExpertParallel> expert_;
};

}  // namespace shardsim

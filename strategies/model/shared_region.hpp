#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "strategies/model/branch.hpp"

// Branches beside each other: F(x) + G(x) of one norm x, in one region of tensor parallelism. It is
// entered and left once, so each direction has one sum over ranks where two branches one behind the
// other have two. Source: Wang and Komatsuzaki, "GPT-J-6B" (2021); Cohere's Command A.
namespace shardsim {

class SharedRegion final : public Branch {
 public:
  using Members = std::vector<std::shared_ptr<const RegionBranch>>;

  /// `name`: of the region, in errors and as its stream of dropout. `block`: the one it is in.
  SharedRegion(const char* name, Members members, int block);

  [[nodiscard]] OffloadModule stream_reader() const override { return OffloadModule::attn_norm; }
  [[nodiscard]] bool is_captured(const GraphModules& graphs) const override;
  [[nodiscard]] const char* dropout_stream() const override { return name_; }
  void add_parameters(ParameterTable& table, const std::string& name, int block) const override;
  [[nodiscard]] std::size_t num_kept() const override { return num_kept_; }
  [[nodiscard]] Tensor forward(const Pass& pass, BranchInput& x,
                               std::span<Tensor> kept) const override;
  [[nodiscard]] Tensor backward(const Pass& pass, Tensor dy, BranchInput& x,
                                std::span<Tensor> kept) const override;
  [[nodiscard]] std::int64_t forward_flops_per_sample(int block) const override;

 private:
  // A member in a block: its pass, and what it keeps.
  struct Place {
    const RegionBranch& branch;
    Pass pass;
    std::span<Tensor> kept;
  };
  [[nodiscard]] Place place_of(std::size_t member, const Pass& pass, std::span<Tensor> kept) const;

  const char* name_;
  Members members_;
  // The first parameter of each member, and the first tensor that it keeps.
  std::vector<int> first_;
  std::vector<std::size_t> kept_first_;
  std::size_t num_kept_ = 0;
};

}  // namespace shardsim

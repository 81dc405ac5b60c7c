#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "strategies/model/parameter.hpp"

// The list of a model's parameters while it is being written down: unit by unit, in order.
namespace shardsim {

/// Whether the matrices of a unit are those of hidden layers, or tables (see
/// ParameterSpec::matrix_rows).
enum class UnitMatrices : std::uint8_t { hidden, tables };

class ParameterTable {
 public:
  /// With `token_shards`, tensor-parallel ranks apply parameters that are not split to different
  /// tokens: see ParameterSpec::sum_over_tp.
  explicit ParameterTable(bool token_shards = false) : token_shards_(token_shards) {}

  /// Parameters added from now on belong to this unit.
  void begin_unit(std::string name, UnitMatrices matrices = UnitMatrices::hidden) {
    units_.push_back({std::move(name), static_cast<int>(specs_.size()), 0});
    has_tables_ = matrices == UnitMatrices::tables;
  }
  /// Returns the parameter's index. REQUIRES: a unit was begun.
  int add(std::string name, const Shape& shape, const Init& init) {
    specs_.push_back({std::move(name), shape, init});
    specs_.back().sum_over_tp = token_shards_;
    if (!has_tables_) specs_.back().matrix_rows = rows_of_matrices(shape);
    ++units_.back().count;
    return static_cast<int>(specs_.size()) - 1;
  }
  /// The same for a parameter that is whole on each of `parts` tensor-parallel ranks, which apply
  /// it to heads of their own.
  int add_for_heads(std::string name, const Shape& shape, const Init& init, int parts) {
    const int index = add(std::move(name), shape, init);
    specs_.back().sum_over_tp = parts > 1;
    return index;
  }
  /// The same for a parameter that tensor-parallel ranks have a part of each; see TensorSplit.
  /// Empty sections: the whole axis. With one part nothing is split.
  int add_split(std::string name, const Shape& whole, const Init& init, int axis, int parts,
                std::vector<std::int64_t> sections = {}) {
    if (sections.empty()) sections.push_back(whole[axis]);
    std::int64_t size = 0;
    std::vector<std::int64_t> sizes;
    for (const std::int64_t section : sections) {
      sizes.push_back((section + parts - 1) / parts);
      size += sizes.back();
    }
    const int index = add(std::move(name), with_axis(whole, axis, size), init);
    std::vector<std::int64_t>& rows = specs_.back().matrix_rows;
    if (!rows.empty() && axis == 0 && whole.rank() == 2) rows = std::move(sizes);
    if (parts == 1) return index;
    specs_.back().split = {axis, parts, whole, std::move(sections)};
    specs_.back().sum_over_tp = false;  // Applied to all tokens, within a region.
    return index;
  }
  /// The same along the first dimension for a parameter of `groups` key and value heads, which
  /// `parts` divides or that divide it: then neighbours have copies of a head each.
  int add_for_groups(std::string name, const Shape& whole, const Init& init, std::int64_t groups,
                     int parts) {
    if (groups >= parts) return add_split(std::move(name), whole, init, 0, parts);
    if (groups == 1) return add_for_heads(std::move(name), whole, init, parts);
    const int index = add_split(std::move(name), whole, init, 0, static_cast<int>(groups));
    specs_.back().split.copies = parts / static_cast<int>(groups);
    return index;
  }
  /// How experts are cut: into `parts` groups of experts, of which each has `slices` along an axis.
  struct ExpertCut {
    int parts = 1;
    int slices = 1;
    int slice_axis = 1;
  };
  /// Matrices [experts, n, k], one per expert, or biases [experts, n]. In one part they are dense
  /// weights.
  int add_experts(std::string name, const Shape& whole, const Init& init, const ExpertCut& cut) {
    const int index = add_split(std::move(name), whole, init, 0, cut.parts);
    ParameterSpec& spec = specs_.back();
    spec.expert = true;
    if (cut.slices > 1) {
      spec.shape = with_axis(spec.shape, cut.slice_axis, whole[cut.slice_axis] / cut.slices);
      spec.split = {.axis = 0,
                    .parts = cut.parts,
                    .whole = whole,
                    .sections = {whole[0]},
                    .slice_axis = cut.slice_axis,
                    .slices = cut.slices};
      spec.sum_over_tp = false;
      spec.matrix_rows = rows_of_matrices(spec.shape);
    }
    if (whole.rank() == 2) spec.matrix_rows = {};
    spec.split.over = SplitRanks::expert;
    return index;
  }
  /// Muon leaves this parameter to the rule for vectors and tables, although it is a matrix.
  void leave_out_of_muon(int index) { specs_[to_count(index)].matrix_rows = {}; }
  /// Its products stay in full precision.
  void never_quantize(int index) { specs_[to_count(index)].is_never_quantized = true; }
  /// Weights of linear layers from parameter `first` on are read in this precision.
  void quantize_from(std::size_t first, const LowPrecision* low) {
    for (ParameterSpec& spec : std::span(specs_).subspan(first)) {
      const int rank = spec.expert ? 3 : 2;  // Biases of experts are lists of them.
      if (spec.shape.rank() >= rank && !spec.is_never_quantized) spec.low = low;
    }
  }
  [[nodiscard]] const std::vector<ParameterSpec>& specs() const { return specs_; }
  [[nodiscard]] const std::vector<ParameterUnit>& units() const { return units_; }

 private:
  static Shape with_axis(const Shape& shape, int axis, std::int64_t size) {
    const auto size_of = [&](int i) { return i == axis ? size : shape[i]; };
    if (shape.rank() == 1) return {size};
    if (shape.rank() == 3) return {size_of(0), size_of(1), size_of(2)};  // Experts.
    return {size_of(0), size_of(1)};
  }

  static std::vector<std::int64_t> rows_of_matrices(const Shape& shape) {
    if (shape.rank() == 2) return {shape[0]};
    if (shape.rank() == 3) return std::vector<std::int64_t>(to_count(shape[0]), shape[1]);
    return {};
  }
  static std::size_t to_count(std::int64_t size) { return static_cast<std::size_t>(size); }

  bool token_shards_;
  bool has_tables_ = false;
  std::vector<ParameterSpec> specs_;
  std::vector<ParameterUnit> units_;
};

}  // namespace shardsim

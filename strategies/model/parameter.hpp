#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/tensor.hpp"

// A model's parameters as a table, and how model code reaches them. Where they live, whether they
// are gathered first and what happens to a finished gradient is decided outside the model.
namespace shardsim {

/// How a parameter starts. Values depend on (seed, parameter name, element index) only.
struct Init {
  enum class Kind { zeros, ones, bell, integers };
  Kind kind = Kind::bell;
  /// bell: standard deviation. integers: uniform whole numbers in [-scale, scale].
  double scale = 0.02;
};

struct ParameterSpec {
  std::string name;  ///< Fully qualified, e.g. "blocks.3.attention.wq".
  Shape shape;
  Init init;
};

/// Consecutive parameters [first, first + count) that are gathered, reduced and freed together:
/// FSDP's unit, typically one transformer block.
struct ParameterUnit {
  std::string name;
  int first = 0;
  int count = 0;
};

/// The model's view of its parameters during a step; `index` is the position in the table.
class Parameters {
 public:
  virtual ~Parameters() = default;
  /// The weight in the arithmetic's dtype. Valid while its unit is in use.
  [[nodiscard]] virtual Tensor weight(int index) = 0;
  /// Where backward ADDS the gradient of this microbatch.
  [[nodiscard]] virtual Tensor gradient(int index) = 0;
  /// Called by backward exactly once per parameter and microbatch, after the last addition to it.
  virtual void gradient_ready(int index) = 0;
};

/// Fills `values` (elements [first, first + values.numel()) of the parameter) as `spec.init` says.
/// REQUIRES: values.has_data().
void initialize(const ParameterSpec& spec, std::uint64_t seed, std::int64_t first,
                const Tensor& values);

}  // namespace shardsim

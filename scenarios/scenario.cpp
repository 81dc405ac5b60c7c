#include "scenarios/scenario.hpp"

#include <cstddef>

#include "scenarios/choices.hpp"

namespace shardsim {
namespace {

template <typename Enum>
const char* name_of(Enum value) {
  return choice_names(value)[static_cast<std::size_t>(value)];
}

}  // namespace

Tracked<double> PeakTflops::of(Precision precision) const {
  switch (precision) {
    case Precision::fp64:
      return fp64;
    case Precision::fp32:
      return fp32;
    case Precision::bf16:
      return bf16;
    case Precision::fp16:
      return fp16;
    case Precision::fp8:
      return fp8;
  }
  return 0;
}

const char* to_string(ModelFamily family) { return name_of(family); }
const char* to_string(Precision precision) { return name_of(precision); }
const char* to_string(OptimizerKind optimizer) { return name_of(optimizer); }
const char* to_string(LossScalingKind kind) { return name_of(kind); }
const char* to_string(GradNorm norm) { return name_of(norm); }
const char* to_string(TensorMode mode) { return name_of(mode); }
const char* to_string(ReductionOrder order) { return name_of(order); }
const char* to_string(AllReduceAlgorithm algorithm) { return name_of(algorithm); }
const char* to_string(DataParallelKind kind) { return name_of(kind); }
const char* to_string(GradientCompressionKind kind) { return name_of(kind); }
const char* to_string(CompareOp op) { return name_of(op); }

}  // namespace shardsim

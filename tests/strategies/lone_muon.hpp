#pragma once

#include "strategies/model/parameter.hpp"
#include "strategies/optimizer/muon.hpp"
#include "strategies/optimizer/optimizer.hpp"

namespace shardsim::test {

/// Muon's step of a whole parameter by its definition, in plain loops over doubles: apart from the
/// code that is tested. `cut`: blockwise, how tensor-parallel ranks cut the parameter; parts 1:
/// not.
void lone_muon_step(const MuonOptions& muon, const OptimizerOptions& shared,
                    const ParameterSpec& whole, const TensorSplit& cut, const Tensor& weight,
                    const Tensor& gradient, const Tensor& momentum, double gradient_scale);

}  // namespace shardsim::test

#pragma once

#include <functional>

#include "strategies/mesh.hpp"
#include "strategies/model/parameter.hpp"

#include "tests/mutants/wrapped_sync.hpp"

// Bugs in which gradients the norm for clipping counts. Each is a norm that is right but for the
// copies of a parameter that count.
namespace shardsim::test {

/// Whether the copy of a parameter at a place counts.
using Counts = std::function<bool(const ParameterSpec& spec, const MeshPlace& place)>;

/// As many times as there are tensor-parallel ranks, what all of them have: norms, row biases.
[[nodiscard]] bool counts_on_every_tensor_parallel_rank(const ParameterSpec& spec,
                                                        const MeshPlace& place);
/// Key and value heads on each rank that has a copy of them.
[[nodiscard]] bool counts_every_copy(const ParameterSpec& spec, const MeshPlace& place);
/// Tied weights on the first stage and on the last.
[[nodiscard]] bool counts_on_both_stages(const ParameterSpec& spec, const MeshPlace& place);
/// Nowhere what all tensor-parallel ranks have.
[[nodiscard]] bool counts_split_alone(const ParameterSpec& spec, const MeshPlace& place);

/// The 2-norm of the copies that count, over all owners. is_main_copy makes the right one.
[[nodiscard]] WrapSync norm_of(const Counts& counts);

}  // namespace shardsim::test

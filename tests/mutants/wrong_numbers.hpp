#pragma once

#include <string>

#include "tests/mutants/faulty_communicator.hpp"

// Bugs after which a run still ends, but does not train the same model. Each is a mistake that
// people make in strategies; here it is made in the calls a correct strategy issues.
namespace shardsim::test {

/// Each rank divides by its own number of targets: their sum over the ranks is left out.
[[nodiscard]] Faults no_averaging();
/// Each rank divides by its own number of targets times the ranks: a mean of means, which is the
/// mean over all targets only where ranks have equally many.
[[nodiscard]] Faults mean_of_means();
/// Gradients are averaged once more over each data-parallel group that reduces them.
[[nodiscard]] Faults double_averaging();
/// Gradients are reduced a second time over the same group.
[[nodiscard]] Faults reduced_twice();
/// The reductions with this label do not happen: each rank keeps its own gradients.
[[nodiscard]] Faults dropped_reduction(const std::string& label);
/// The gathers with this label do not happen: what lay in the output stays there.
[[nodiscard]] Faults dropped_gather(const std::string& label);
/// Gathers deliver the weights of the step before.
[[nodiscard]] Faults stale_gather();
/// The inputs of reduce_scatters lie one element off.
[[nodiscard]] Faults shifted_reduce_scatter();
/// The contributions of ranks to gathers lie one element off.
[[nodiscard]] Faults shifted_gather();
/// Gradients are reduced by maximum.
[[nodiscard]] Faults reduced_by_max();
/// Rank 0 counts double in every reduction of gradients.
[[nodiscard]] Faults own_part_twice();
/// The last rank's gradients are lost.
[[nodiscard]] Faults lost_contribution();
/// Shards are not reduced over the replicas.
[[nodiscard]] Faults no_replicate_reduction();
/// The groups called `name` are made of neighbours, four at a time, whoever should be in them.
[[nodiscard]] Faults neighbours_as_group(const std::string& name);
/// The groups called `name` are pairs of ranks that lie `stride` apart, as on the axis with this
/// stride, whichever axis it should be. REQUIRES: two ranks on both axes; all ranks make the
/// groups.
[[nodiscard]] Faults pairs_as_group(const std::string& name, int stride);
/// The members of the groups called `name` are ranked the other way round.
[[nodiscard]] Faults reversed_group(const std::string& name);
/// The norm for clipping is that of this rank's shard alone.
[[nodiscard]] Faults local_norm();
/// The loss that is told is that of this rank's own samples; what trains is right.
[[nodiscard]] Faults local_loss();
/// The loss is summed over the ranks a second time; what trains is right.
[[nodiscard]] Faults loss_summed_twice();
/// Weights are gathered in the first step only; later ones compute with what came then.
[[nodiscard]] Faults gathered_once();
/// Overflows are not made known over the groups called `name`.
[[nodiscard]] Faults overflow_unknown_over(const std::string& name);

}  // namespace shardsim::test

#include <catch2/catch.hpp>

#include "sim/run/device_memory.hpp"

#include "tests/backends/fiber_fixture.hpp"
#include "tests/units.hpp"

// The ranks that are no edge of a split form a group, too. Its buffers were counted on the middle
// stages of a pipeline, although the group is dropped at once.
namespace shardsim::test {

TEST_CASE("a middle stage holds buffers of its own edges, and of no group that it drops") {
  const Cluster cluster = test_cluster(16, 1);  // A stage per node.
  MeshShape mesh;
  mesh.pp = 16;
  const std::int64_t first = outside_bytes(cluster, mesh, 1, 0);
  const std::int64_t middle = outside_bytes(cluster, mesh, 1, 7);
  // Two senders and two receivers each, in two channels; all stages; and first and last stage.
  constexpr std::int64_t kEdges = 2 * (2 * 2 + 2 * 10) * kMiB;
  constexpr std::int64_t kRing = std::int64_t{16} * 12 * kMiB;
  CHECK(middle == 400'000'000 + kEdges + kRing);
  CHECK(first == middle + kRing);
}

}  // namespace shardsim::test

#include "sim/hardware/outside_memory.hpp"

#include <vector>

#include <catch2/catch.hpp>

#include "tests/units.hpp"

namespace shardsim {
namespace {

using test::kMiB;

// `count` ranks from `first` on, `step` apart, on four nodes of eight.
GroupLayout layout(int first, int count, int step = 1) {
  Cluster cluster;
  cluster.num_nodes = 4;
  cluster.gpus_per_node = 8;
  std::vector<int> members;
  for (int i = 0; i < count; ++i) members.push_back(first + i * step);
  return {cluster, members};
}

}  // namespace

// NCCL src/init.cc: 8 lines x 512 threads x 8 steps x 16 bytes, 120 elements x 640 threads x 8
// steps x 8 bytes, and 4 MiB.
TEST_CASE("a receive buffer of NCCL has room for three protocols, in pages of 2 MiB") {
  constexpr std::int64_t kBytes = 8 * 512 * 8 * 16 + 120 * 640 * 8 * 8 + 4 * kMiB;
  CHECK(kNcclReceiveBytes.bytes == (kBytes + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB));
}

TEST_CASE("a ring has one connection each way in every channel, however many members") {
  for (const int size : {2, 8}) {
    CHECK(nccl_buffer_bytes(layout(0, size), 1, NcclUse::rings) == std::int64_t{24} * 12 * kMiB);
  }
  CHECK(nccl_buffer_bytes(layout(0, 32), 9, NcclUse::rings) == std::int64_t{16} * 12 * kMiB);
  CHECK(nccl_buffer_bytes(layout(0, 4, 8), 3, NcclUse::rings) == std::int64_t{16} * 12 * kMiB);
  CHECK(nccl_buffer_bytes(layout(3, 1), 0, NcclUse::rings) == 0);
}

TEST_CASE("all-to-all connects each pair, near pairs in many channels") {
  CHECK(nccl_buffer_bytes(layout(0, 8), 0, NcclUse::all_to_all) ==
        std::int64_t{7} * 32 * 12 * kMiB);
  // Ranks 6 and 7 of the first node and 8 to 13 of the second: seen from either.
  CHECK(nccl_buffer_bytes(layout(6, 8), 0, NcclUse::all_to_all) ==
        std::int64_t{1 * 32 + 6 * 2} * 12 * kMiB);
  CHECK(nccl_buffer_bytes(layout(6, 8), 7, NcclUse::all_to_all) ==
        std::int64_t{5 * 32 + 2 * 2} * 12 * kMiB);
}

TEST_CASE("of a message's two ends the receiver holds most") {
  const GroupLayout near = layout(0, 2);
  CHECK(nccl_buffer_bytes(near, 0, NcclUse::sends) == std::int64_t{32} * 2 * kMiB);
  CHECK(nccl_buffer_bytes(near, 1, NcclUse::receives) == std::int64_t{32} * 10 * kMiB);
  const GroupLayout far = layout(7, 2);
  CHECK(nccl_buffer_bytes(far, 0, NcclUse::sends) == 2 * 2 * kMiB);
  CHECK(nccl_buffer_bytes(far, 1, NcclUse::receives) == 2 * 10 * kMiB);
}

}  // namespace shardsim

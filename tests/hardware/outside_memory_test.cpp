#include "sim/hardware/outside_memory.hpp"

#include <catch2/catch.hpp>

#include "tests/units.hpp"

namespace shardsim {
using test::kMiB;

// NCCL src/init.cc: 8 lines x 512 threads x 8 steps x 16 bytes, 120 elements x 640 threads x 8
// steps x 8 bytes, and 4 MiB.
TEST_CASE("a receive buffer of NCCL has room for three protocols, in pages of 2 MiB") {
  constexpr std::int64_t kBytes = 8 * 512 * 8 * 16 + 120 * 640 * 8 * 8 + 4 * kMiB;
  CHECK(kNcclReceiveBytes.bytes == (kBytes + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB));
}

TEST_CASE("a ring has one connection each way in every channel, however many members") {
  for (const int others : {1, 7}) {
    CHECK(nccl_buffer_bytes({.near = others}, NcclUse::rings) == std::int64_t{24} * 12 * kMiB);
  }
  CHECK(nccl_buffer_bytes({.near = 7, .far = 24}, NcclUse::rings) == std::int64_t{16} * 12 * kMiB);
  CHECK(nccl_buffer_bytes({.far = 3}, NcclUse::rings) == std::int64_t{16} * 12 * kMiB);
  CHECK(nccl_buffer_bytes({}, NcclUse::rings) == 0);
}

TEST_CASE("all-to-all connects each pair, near pairs in many channels") {
  CHECK(nccl_buffer_bytes({.near = 7}, NcclUse::all_to_all) == std::int64_t{7} * 32 * 12 * kMiB);
  CHECK(nccl_buffer_bytes({.near = 1, .far = 6}, NcclUse::all_to_all) ==
        std::int64_t{1 * 32 + 6 * 2} * 12 * kMiB);
}

TEST_CASE("of a message's two ends the receiver holds most") {
  const NcclPeers near{.near = 1};
  CHECK(nccl_buffer_bytes(near, NcclUse::sends) == std::int64_t{32} * 2 * kMiB);
  CHECK(nccl_buffer_bytes(near, NcclUse::receives) == std::int64_t{32} * 10 * kMiB);
  const NcclPeers far{.far = 1};
  CHECK(nccl_buffer_bytes(far, NcclUse::sends) == 2 * 2 * kMiB);
  CHECK(nccl_buffer_bytes(far, NcclUse::receives) == 2 * 10 * kMiB);
}

}  // namespace shardsim

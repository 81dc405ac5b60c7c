#include "sim/hardware/device.hpp"

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "sim/hardware/power.hpp"

#include "tests/units.hpp"

namespace shardsim {
namespace {

using test::us;

// 1 TB/s at 80 %, 100 TFLOP/s bf16 at 50 %, 2 us per launch; no fp64.
Device test_device() {
  Device device;
  device.name = "test device";
  device.memory_bytes_per_s = 1e12;
  device.memory_efficiency = 0.8;
  device.peak_flops_per_s.at(static_cast<std::size_t>(DType::bf16)) = 100e12;
  device.matmul_efficiency = 0.5;
  device.launch_s = 2e-6;
  return device;
}

}  // namespace

TEST_CASE("a matrix product takes the longer of its arithmetic and its traffic, and one launch") {
  const Device device = test_device();
  // 5e9 flops at 50 TFLOP/s: 100 us; 8e6 bytes at 0.8 TB/s: 10 us.
  CHECK(device.price({"matmul", ComputeKind::matmul, DType::bf16, 5'000'000'000, 8'000'000}) ==
        us(102));
  // 5e6 flops: 0.1 us; the traffic decides.
  CHECK(device.price({"matmul", ComputeKind::matmul, DType::bf16, 5'000'000, 8'000'000}) == us(12));
}

TEST_CASE("other operations are bound by their traffic alone, whatever they compute") {
  const Device device = test_device();
  CHECK(device.price({"gelu", ComputeKind::memory_bound, DType::bf16, 1LL << 60, 8'000'000}) ==
        us(12));
  CHECK(device.price({"nothing", ComputeKind::memory_bound, DType::fp64, 0, 0}) == us(2));
}

// An eighth of the power leaves half of the clock: 5e9 flops at 25 TFLOP/s take 200 us.
TEST_CASE("a limit of power slows arithmetic by its cube root, and no memory") {
  Device device = test_device();
  CHECK(clock_share(700, 700) == 1.0);
  device.clock_share = clock_share(100, 800);
  CHECK(device.clock_share == 0.5);
  CHECK(device.price({"matmul", ComputeKind::matmul, DType::bf16, 5'000'000'000, 8'000'000}) ==
        us(202));
  CHECK(device.price({"matmul", ComputeKind::matmul, DType::bf16, 5'000'000, 8'000'000}) == us(12));
  CHECK(device.price({"gelu", ComputeKind::memory_bound, DType::bf16, 0, 8'000'000}) == us(12));
}

TEST_CASE("a product in a precision the device has no peak for is refused by name") {
  try {
    (void)test_device().price({"matmul", ComputeKind::matmul, DType::fp64, 1, 1});
    FAIL("the price must be refused");
  } catch (const UsageError& error) {
    CHECK(std::string(error.what()) == "test device has no peak rate for fp64");
  }
}

}  // namespace shardsim

#include <array>
#include <cmath>
#include <cstring>
#include <string>

#include <catch2/catch.hpp>
#include <rapidcheck.h>

#include "sim/hardware/kernels/kernel_constants.hpp"
#include "sim/hardware/kernels/kernel_seconds.hpp"

#include "tests/units.hpp"

using namespace shardsim;

namespace {

using shardsim::test::ns;

constexpr std::int64_t kTileFlops = 2LL * 128 * 128 * 512;

// Four multiprocessors that reach their rate: of kTileFlops in a microsecond. No overheads.
KernelConstants plain_constants() {
  KernelConstants constants{.name = "plain"};
  constants.multiprocessors.value = 4;
  constants.matmul_rate.value = 1;
  constants.unaligned_share.value = 0.5;
  constants.sustained_share.value = 1;
  AttentionKernels& attention = constants.attention.at(0);
  attention.forward.rate.value = 1;
  attention.backward.rate.value = 0.5;
  constants.permutation_share.value = 0.25;
  constants.cross_entropy_share.value = 0.5;
  return constants;
}

Device device_of(const KernelConstants& constants) {
  Device device;
  device.memory_bytes_per_s = 1e15;
  device.peak_flops_per_s.at(static_cast<std::size_t>(DType::bf16)) = 4.0 * kTileFlops * 1e6;
  device.kernels = &constants;
  return device;
}

ComputeOp product(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch = 1) {
  return {"product",
          ComputeKind::matmul,
          DType::bf16,
          2 * m * n * k * batch,
          2 * batch * (m * k + k * n + m * n),
          {KernelFamily::matrix_product, m, n, k, batch}};
}

ComputeOp attention(KernelFamily family, std::int64_t flops) {
  return {"attention", ComputeKind::matmul, DType::bf16, flops, 1, {family, 512, 512, 128, 8}};
}

}  // namespace

TEST_CASE("every constant of every GPU has a source and a value that can be") {
  std::string before;
  for (const KernelConstants& constants : all_kernel_constants()) {
    INFO(constants.name);
    CHECK(before < constants.name);
    before = constants.name;
    CHECK(find_kernel_constants(constants.name) == &constants);
    for (const NamedConstant& constant : constants_of(constants)) {
      INFO(constant.name);
      CHECK(std::strlen(constant.number.source) > 20);
      CHECK(std::isfinite(constant.number.value));
      CHECK(constant.number.value >= 0.0);
    }
    for (const SourcedNumber& share :
         {constants.matmul_rate, constants.unaligned_share, constants.sustained_share,
          constants.permutation_share, constants.cross_entropy_share}) {
      CHECK(share.value > 0.0);
      CHECK(share.value <= 1.0);
    }
    CHECK(constants.epilogue_exposed.value <= 1.0);  // All of it may hide.
  }
  CHECK(find_kernel_constants("none") == nullptr);
  // All numbers are listed: each is two words of the structure, beside the name.
  CHECK(sizeof(KernelConstants) == sizeof(const char*) + kKernelConstants * sizeof(SourcedNumber));
}

TEST_CASE("a constant that is said to be a neighbour's is the neighbour's") {
  struct Neighbour {
    const char* name;
    const char* words;
    int num_inherited;
  };
  for (const Neighbour& of : {Neighbour{"h100-sxm", "neighbour: the H100's", 81},
                              Neighbour{"b200-sxm", "neighbour: the B200's", 72},
                              Neighbour{"gb200", "neighbour: the GB200's", 37}}) {
    const auto own = constants_of(*find_kernel_constants(of.name));
    int num_inherited = 0;
    for (const KernelConstants& constants : all_kernel_constants()) {
      const auto all = constants_of(constants);
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (std::string(all.at(i).number.source).rfind(of.words, 0) != 0) continue;
        INFO(constants.name << ": " << all.at(i).name);
        CHECK(all.at(i).number.value == own.at(i).number.value);
        ++num_inherited;
      }
    }
    CHECK(num_inherited == of.num_inherited);
  }
}

TEST_CASE("a product takes as long as its waves of the best tile") {
  const KernelConstants constants = plain_constants();
  const Device device = device_of(constants);
  CHECK(device.price(product(256, 256, 512)) == ns(1000));          // 4 tiles of 128 x 128.
  CHECK(device.price(product(512, 256, 512)) == ns(2000));          // 8.
  CHECK(device.price(product(264, 256, 512)) == ns(1250));          // 20 of 64 x 64 in 5 waves.
  CHECK(device.price(product(256, 256, 512, 3)) == ns(3000));       // Three of them.
  CHECK(device.price(product(512, 256, 1024)) == ns(4000));         // Twice as deep.
  CHECK(device.price(product(256, 256, 512 + 4)) == ns(2015.625));  // Unaligned: half the rate.
}

TEST_CASE("tiles pay for their size, for themselves and for writing their results") {
  KernelConstants constants = plain_constants();
  constants.tile_halving.value = 64.0;  // 128 x 128: 1 + 64 / 64 = 2 times the time.
  CHECK(device_of(constants).price(product(512, 512, 512)) == ns(7000));  // 256 x 128: 1.75.
  constants = plain_constants();
  constants.tile_overhead_s.value = 1e-6;
  CHECK(device_of(constants).price(product(256, 256, 512)) == ns(2000));
  constants = plain_constants();
  constants.epilogue_exposed.value = 0.5;
  Device device = device_of(constants);
  device.memory_bytes_per_s = 65.536e9 * 4;  // 32 KiB of a tile at a quarter of it: 500 ns, half.
  CHECK(matrix_product_seconds(device, device.peak(DType::bf16), 2, product(256, 256, 512).shape,
                               2 * (2 * 256 * 512 + 256 * 256)) == Approx(2.5e-6).epsilon(1e-12));
}

TEST_CASE("where tiles leave multiprocessors idle, the sum is split and added up") {
  const KernelConstants constants = plain_constants();
  Device device = device_of(constants);
  device.memory_bytes_per_s = 1e12;
  // One tile of 64 x 64 x 4096 takes 2 us; four parts 0.5 us, then (4 * 4 + 2) * 4096 bytes. Its
  // operands, 1.06 MB, take longer: 1.056768 us.
  CHECK(device.price(product(64, 64, 4096)) == ns(1056.768));
  device.memory_bytes_per_s = 1e15;
  CHECK(device.price(product(64, 64, 4096)) == ns(500 + 0.073728));
  CHECK(device.price(product(64, 64, 512)) == ns(250));  // Too shallow to split.
}

TEST_CASE("fused attention is bound by its work, its longest block or its traffic") {
  KernelConstants constants = plain_constants();
  Device device = device_of(constants);
  const std::int64_t square = 2LL * 512 * 512 * 128 * 8;  // One product, 32 kTileFlops.
  CHECK(device.price(attention(KernelFamily::attention_forward, 2 * square)) == ns(16000));
  CHECK(device.price(attention(KernelFamily::attention_backward, 5 * square)) == ns(80000));
  // Half of the square, and half of the blocks on its diagonal: 5/8.
  CHECK(device.price(attention(KernelFamily::attention_forward, square)) == ns(10000));
  AttentionPass& pass = constants.attention.at(0).forward;
  pass.tail.value = 0.5;  // A block has 2 products of 128 x 512 x 128.
  CHECK(device.price(attention(KernelFamily::attention_forward, square)) == ns(11000));
  pass.head_halving.value = 128.0;
  CHECK(device.price(attention(KernelFamily::attention_forward, square)) == ns(22000));
  pass.keys_halving.value = 512.0;
  CHECK(device.price(attention(KernelFamily::attention_forward, square)) == ns(44000));
  device.memory_bytes_per_s = 1e4;
  CHECK(device.price(attention(KernelFamily::attention_forward, square)) == ns(100000));
}

TEST_CASE("permutations and cross entropy reach their own shares of the bandwidth") {
  const KernelConstants constants = plain_constants();
  Device device = device_of(constants);
  device.memory_bytes_per_s = 1e12;
  device.memory_efficiency = 0.8;
  const auto moving = [&](KernelFamily family) {
    return device.price({"moving", ComputeKind::memory_bound, DType::bf16, 0, 1'000'000, {family}});
  };
  CHECK(moving(KernelFamily::other) == ns(1250));
  CHECK(moving(KernelFamily::permutation) == ns(4000));
  CHECK(moving(KernelFamily::cross_entropy) == ns(2000));
  device.kernels = nullptr;
  CHECK(moving(KernelFamily::permutation) == ns(1250));
}

TEST_CASE("shapes change nothing on a device without kernel data") {
  Device device = device_of(plain_constants());
  device.kernels = nullptr;
  device.matmul_efficiency = 0.5;
  CHECK(device.price(product(264, 256, 512)) == ns(2062.5));
}

TEST_CASE("a product of nothing takes its traffic and its launch") {
  const KernelConstants constants = plain_constants();
  Device device = device_of(constants);
  device.launch_s = 3e-6;
  CHECK(device.price({"empty",
                      ComputeKind::matmul,
                      DType::bf16,
                      0,
                      0,
                      {KernelFamily::matrix_product, 0, 256, 256}}) == ns(3000));
}

TEST_CASE("cached prices are the prices") {
  Device device = device_of(*find_kernel_constants("a100-sxm"));
  PriceCache cache(device);
  CHECK(rc::check([&] {
    const auto size = [](int scale) { return *rc::gen::inRange<std::int64_t>(1, 40) * scale; };
    // Few sizes, so that prices are asked for again and places are fought over.
    for (int i = 0; i < 50; ++i) {
      const std::int64_t m = size(64);
      const std::int64_t n = size(64);
      ComputeOp op = product(m, n, size(512));
      op.bytes += size(1);
      if (size(1) % 2 == 0) op.shape.family = KernelFamily::attention_backward;
      RC_ASSERT(cache.price(op).device == device.price(op));
      RC_ASSERT(cache.price(op).device == device.price(op));
    }
  }));
}

// Two operations that differ in one thing only must not share a price, whichever came first.
TEST_CASE("a cache tells apart what differs in anything that a price depends on") {
  const Device device = device_of(*find_kernel_constants("a100-sxm"));
  const ComputeOp base = product(4096, 4096, 4096);
  std::array<ComputeOp, 7> others;
  others.fill(base);
  others[0].flops *= 2;
  others[0].shape.family = KernelFamily::other;
  others[1].bytes *= 1000;
  others[2].shape.batch = 2;
  others[3].shape.n *= 2;
  others[4].shape.family = KernelFamily::attention_forward;
  others[5].kind = ComputeKind::memory_bound;
  others[6].shape.m *= 2;
  for (const ComputeOp& other : others) {
    PriceCache cache(device);
    CHECK(cache.price(base).device == device.price(base));
    CHECK(cache.price(other).device == device.price(other));
    CHECK(cache.price(other).device != device.price(base));
  }
}

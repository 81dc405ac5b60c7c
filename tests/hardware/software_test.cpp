#include "sim/hardware/software.hpp"

#include <cstring>
#include <set>
#include <string>

#include <catch2/catch.hpp>

#include "sim/hardware/architecture.hpp"
#include "sim/hardware/device.hpp"
#include "sim/hardware/kernels/kernel_constants.hpp"
#include "sim/hardware/kernels/kernel_seconds.hpp"

#include "tests/units.hpp"

// Prices of operations under frameworks, worked out by hand. The device has 1 TB/s; a launch takes
// a nanosecond, and a product at the full rate takes next to nothing.
namespace shardsim {
namespace {

using test::ns;

const KernelConstants& ideal_kernels() {
  static const KernelConstants constants = [] {
    KernelConstants ideal{.name = "ideal"};
    ideal.multiprocessors.value = 1;
    ideal.matmul_rate.value = 1;
    ideal.unaligned_share.value = 1;
    ideal.sustained_share.value = 1;
    for (AttentionKernels& library : ideal.attention) {
      library.forward.rate.value = 1;
      library.backward.rate.value = 1;
    }
    ideal.cross_entropy_share.value = 0.5;
    ideal.amax_share.value = 0.5;
    ideal.delta_rule_share.value = 0.5;
    return ideal;
  }();
  return constants;
}

Device device_of(const Software* software, double peak = 1e30) {
  Device device;
  device.memory_bytes_per_s = 1e12;
  device.launch_s = 1e-9;
  device.peak_flops_per_s.fill(peak);
  device.kernels = &ideal_kernels();
  device.software = software;
  return device;
}

ComputeOp memory_op(KernelFamily family, std::int64_t bytes) {
  return {"op", ComputeKind::memory_bound, DType::bf16, 0, bytes, {family}};
}

Software with(KernelFamily family, const KernelUse& use) {
  Software software{.name = "test", .source = "this test"};
  software.uses.at(static_cast<std::size_t>(family)) = use;
  return software;
}

}  // namespace

TEST_CASE("every software has a source for each constant, and counts that can be") {
  std::string before;
  for (const Software& software : all_software()) {
    INFO(software.name);
    CHECK(before < software.name);
    before = software.name;
    CHECK(find_software(software.name) == &software);
    CHECK(std::strlen(software.source) > 20);
    for (const KernelUse& use : software.uses) {
      CHECK(use.kernels >= 0.0);
      CHECK(use.traffic >= 0.0);
    }
    for (const SourcedNumber& number :
         {software.attention_share, software.host_us_per_kernel, software.host_us_per_call}) {
      CHECK(std::strlen(number.source) > 20);
      CHECK(number.value > 0.0);
    }
    CHECK(std::strlen(software.cuda_context.source) > 20);
    CHECK(software.cuda_context.bytes > 0);
    CHECK(software.attention_share.value <= 1.0);
    // Software that stores scores keeps them, and the other way round.
    CHECK(software.stores_scores() == (software.memory.score_bytes > 0.0));
  }
  CHECK(find_software("none") == nullptr);
}

TEST_CASE("every family has a name of its own") {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kKernelFamilies; ++i) {
    names.insert(name_of(static_cast<KernelFamily>(i)));
  }
  CHECK(names.size() == kKernelFamilies);
  CHECK(name_of(KernelFamily::optimizer_step) == "optimizer_step");
  CHECK(names.count("") == 0);
}

TEST_CASE("the loss of Transformer Engine reads logits twice, and writes over them") {
  const Software* software = find_software("megatron-core-2025");
  REQUIRE(software != nullptr);
  const Device device = device_of(software);
  // Logits have 2 bytes; the two kernels move 6, at half of the bandwidth.
  CHECK(device.price(memory_op(KernelFamily::cross_entropy, 1000)) == ns(3 * 2 + 2));
  CHECK(device.price(memory_op(KernelFamily::cross_entropy_backward, 1000)) == ns(2 + 1));
  CHECK(software->memory.loss_kept_bytes + software->memory.loss_forward_bytes +
            software->memory.loss_backward_bytes ==
        0.0);
}

TEST_CASE("the norm of Transformer Engine finds the largest element as it writes") {
  const ComputeOp largest = memory_op(KernelFamily::amax_of_norm, 1000);
  CHECK(device_of(find_software("megatron-core-2025")).price(largest) == Time());
  CHECK(device_of(find_software("megatron-core-2023")).price(largest) == ns(2 + 1));
}

TEST_CASE("an operation takes as many launches and as much traffic as its kernels") {
  const ComputeOp op = memory_op(KernelFamily::bias, 1000);
  CHECK(device_of(nullptr).price(op) == ns(1 + 1));
  const Software fused = with(KernelFamily::bias, {0.0, 0.0});
  CHECK(device_of(&fused).price(op) == Time());
  const Software eager = with(KernelFamily::bias, {3.0, 2.5});
  CHECK(device_of(&eager).price(op) == ns(2.5 + 3));
  CHECK(device_of(&eager).price(memory_op(KernelFamily::norm, 1000)) == ns(2));
}

TEST_CASE("the share measured of one loss kernel does not hold of many") {
  const ComputeOp op = memory_op(KernelFamily::cross_entropy, 1000);
  CHECK(device_of(nullptr).price(op) == ns(2 + 1));  // Half of the bandwidth.
  const Software two = with(KernelFamily::cross_entropy, {2.0, 4.0});
  CHECK(device_of(&two).price(op) == ns(8 + 2));  // The softmax, and the loss with it.
  const Software eager = with(KernelFamily::cross_entropy, {3.0, 4.0});
  CHECK(device_of(&eager).price(op) == ns(4 + 3));
}

TEST_CASE("a product that does not add to the gradients has a kernel that does") {
  // (100, 10) (10, 100): 4 kB of operands; 20 kB of result, added to 40 kB of gradients in fp32.
  const ComputeOp op{"dw", ComputeKind::matmul, DType::bf16,
                     0,    4'000 + 2 * 40'000,  {KernelFamily::weight_gradient, 100, 100, 10}};
  CHECK(device_of(nullptr).price(op) == ns(84 + 1));
  const Software eager = with(KernelFamily::weight_gradient, {2.0, 1.0});
  CHECK(device_of(&eager).price(op) == ns((4 + 20) + (20 + 80) + 2));
}

TEST_CASE("stored scores are read and written, more often with dropout") {
  Software eager = with(KernelFamily::attention_forward, {4.0, 1.5});
  eager.score_passes = {.forward = 2.0, .backward = 3.0};
  eager.dropout_passes = {.forward = 1.0, .backward = 1.0};
  Device device = device_of(&eager);
  // 2 heads of 100 queries, 50 keys, size 10; 8 kB of q, k, v and y, of which half is copied again.
  const KernelShape shape{KernelFamily::attention_forward, 100, 50, 10, 2};
  const ComputeOp op{"attention", ComputeKind::matmul, DType::bf16, 0, 8'000, shape};
  const double products = 2 * 2.0 * ((1000 + 500 + 5000) + (5000 + 500 + 1000));  // Bytes.
  const double pass = 2 * 2.0 * 5000;
  CHECK(device.price(op) == ns((products + 2 * pass + 4'000) * 1e-3 + 4));
  device.attention_drops = true;
  CHECK(device.price(op) == ns((products + 3 * pass + 4'000) * 1e-3 + 4));
}

TEST_CASE("fused attention is that of the software's library, at the share of its year") {
  Software older = with(KernelFamily::attention_forward, {1.0, 1.0});
  const KernelShape shape{KernelFamily::attention_forward, 128, 128, 64, 4};
  const std::int64_t flops = 2LL * 2 * 128 * 128 * 64 * 4;
  const ComputeOp op{"attention", ComputeKind::matmul, DType::bf16, flops, 1, shape};
  const auto peak = static_cast<double>(flops) * 1e9;  // A nanosecond.
  Device device = device_of(&older, peak);
  CHECK(device.price(op) == ns(1 + 1));
  older.attention_share = {0.5, "this test"};
  CHECK(device.price(op) == ns(2 + 1));
  KernelConstants two = ideal_kernels();
  two.attention.at(2).forward.rate.value = 0.25;  // cuDNN's.
  device.kernels = &two;
  CHECK(device.price(op) == ns(2 + 1));
  older.attention = AttentionLibrary::cudnn;
  CHECK(device.price(op) == ns(8 + 1));
  // The share is that of the software's own release.
  device.own_attention = AttentionLibrary::flash2;
  CHECK(device.price(op) == ns(1 + 1));
  device.own_attention = AttentionLibrary::cudnn;
  CHECK(device.price(op) == ns(4 + 1));
  device.own_attention.reset();
  device.software = nullptr;
  CHECK(device.price(op) == ns(4 + 1));
  two.sustained_share.value = 0.5;
  CHECK(device.price(op) == ns(8 + 1));
}

TEST_CASE("a gated delta rule is bound by its bytes or its products, and is several kernels") {
  const Software* const eager = find_software("deepspeed-2024");
  const auto op = [](KernelFamily family, std::int64_t flops) {
    return ComputeOp{"delta_rule", ComputeKind::matmul, DType::bf16, flops, 3000, {family}};
  };
  CHECK(device_of(nullptr).price(op(KernelFamily::delta_rule, 1)) == ns(6 + 1));
  CHECK(device_of(eager).price(op(KernelFamily::delta_rule, 1)) == ns(6 + 8));
  CHECK(device_of(eager).price(op(KernelFamily::delta_rule_backward, 1)) == ns(6 + 11));
  CHECK(device_of(eager, 1e12).price(op(KernelFamily::delta_rule, 9000)) == ns(9 + 8));
}

TEST_CASE("where a GPU has no rows of a library, another's take its place") {
  KernelConstants none = ideal_kernels();
  const auto wanted = [&](AttentionLibrary library) { return none.library_for(library); };
  CHECK(wanted(AttentionLibrary::flash3) == AttentionLibrary::flash3);
  none.attention.at(1).forward.rate.value = 0.0;
  CHECK(wanted(AttentionLibrary::flash3) == AttentionLibrary::cudnn);
  CHECK(wanted(AttentionLibrary::flash2) == AttentionLibrary::flash2);
  none.attention.at(2).forward.rate.value = 0.0;
  CHECK(wanted(AttentionLibrary::cudnn) == AttentionLibrary::flash2);
}

TEST_CASE("the host spends its time on each kernel") {
  const Software eager = with(KernelFamily::norm, {6.0, 1.0});
  Device device = device_of(&eager);
  CHECK(device.issue_price(memory_op(KernelFamily::norm, 1)) == Time());
  device.host_s_per_kernel = 1e-6;
  CHECK(device.issue_price(memory_op(KernelFamily::norm, 1)) == ns(6000));
  CHECK(device.issue_price(memory_op(KernelFamily::residual, 1)) == ns(1000));
  device.software = nullptr;
  CHECK(device.issue_price(memory_op(KernelFamily::norm, 1)) == ns(1000));
}

}  // namespace shardsim

#include <map>
#include <set>
#include <string>

#include <catch2/catch.hpp>

#include "sim/hardware/device.hpp"
#include "sim/hardware/kernels/kernel_constants.hpp"
#include "sim/hardware/software.hpp"

// GCC 12 lost the default that a family is one kernel, and used none. In five of seven frameworks,
// residual sums, permutations, norms and rotary embeddings cost nothing.
namespace shardsim::test {

namespace {

using Names = std::set<std::string>;

const Names kMegatron2021{"attention_forward", "attention_backward",     "weight_gradient",
                          "cross_entropy",     "cross_entropy_backward", "bias",
                          "bias_gradient",     "norm_backward",          "dropout",
                          "dropout_backward",  "optimizer_step"};

// The families for which each framework does not use one kernel.
const Names kEagerFamilies = {
    "cross_entropy", "cross_entropy_backward", "norm",       "norm_backward",
    "rotary",        "rotary_backward",        "activation", "activation_backward",
    "optimizer_step"};

Names and_a_sum_of_gradients(Names names) {
  names.insert("weight_gradient");
  return names;
}

const std::map<std::string, Names>& named() {
  static const std::map<std::string, Names> names = {
      {"composer-2023",
       {"weight_gradient", "bias", "bias_gradient", "norm_backward", "optimizer_step"}},
      {"deepspeed-2024", and_a_sum_of_gradients(kEagerFamilies)},
      {"internevo-2023",
       {"weight_gradient", "activation", "activation_backward", "norm", "norm_backward",
        "optimizer_step"}},
      {"megatron-core-2023",
       {"cross_entropy", "cross_entropy_backward", "bias", "dropout", "dropout_backward",
        "optimizer_step"}},
      {"megatron-core-2025",
       {"cross_entropy", "bias", "dropout", "dropout_backward", "optimizer_step", "amax_of_norm"}},
      {"megatron-core-unfused-2023",
       {"attention_forward", "attention_backward", "cross_entropy", "cross_entropy_backward",
        "bias", "dropout", "dropout_backward", "optimizer_step"}},
      {"megatron-deepspeed-2022", kMegatron2021},
      {"megatron-lm-2021", kMegatron2021},
      {"torchtitan-2024", kEagerFamilies},
      {"torchtitan-2025", {"cross_entropy", "rotary", "rotary_backward", "optimizer_step"}},
  };
  return names;
}

}  // namespace

TEST_CASE("what a framework's row does not name is one kernel") {
  REQUIRE(all_software().size() == named().size());
  for (const Software& software : all_software()) {
    INFO(software.name);
    Names changed;
    for (std::size_t i = 0; i < kKernelFamilies; ++i) {
      const KernelUse one{1.0, 1.0};
      if (software.uses.at(i) == one) continue;
      changed.emplace(name_of(static_cast<KernelFamily>(i)));
    }
    Names expected = named().at(software.name);
    expected.insert({"delta_rule", "delta_rule_backward"});  // All call one library.
    CHECK(changed == expected);
  }
}

TEST_CASE("a sum of two branches costs the same in every framework as in none") {
  Device device;
  device.memory_bytes_per_s = 1e12;
  device.launch_s = 1e-6;
  device.kernels = find_kernel_constants("a100-sxm");
  for (const KernelFamily family : {KernelFamily::residual, KernelFamily::permutation}) {
    const ComputeOp op{"sum", ComputeKind::memory_bound, DType::bf16, 0, 3'000'000, {family}};
    device.software = nullptr;
    const Time without = device.price(op);
    CHECK(without > Time::from_seconds(3e-6));
    for (const Software& software : all_software()) {
      INFO(software.name);
      device.software = &software;
      CHECK(device.price(op) == without);
    }
  }
}

}  // namespace shardsim::test

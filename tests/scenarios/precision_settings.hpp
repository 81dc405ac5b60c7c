#pragma once

#include <string>
#include <vector>

// Settings of products in low precision, for the scenario of support.hpp.
namespace shardsim::testing {

inline std::vector<std::string> products_in_fp8() {
  return {"training.precision=fp8", "system.device.peak_tflops.bf16=9",
          "system.device.peak_tflops.fp8=9"};
}

inline std::vector<std::string> delayed_scales() {
  std::vector<std::string> settings = products_in_fp8();
  settings.emplace_back("training.fp8_recipe=delayed");
  return settings;
}

/// As they are verified.
inline std::vector<std::string> delayed_scales_with_data() {
  return {"training.precision=fp64",          "training.fp8_recipe=delayed",
          "system.device.peak_tflops.fp64=9", "system.device.peak_tflops.fp8=9",
          "execution.tensors=real",           "model.vocab_size=64"};
}

}  // namespace shardsim::testing

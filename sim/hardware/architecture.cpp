#include "sim/hardware/architecture.hpp"

#include <algorithm>
#include <array>

namespace shardsim {

namespace {

constexpr std::int64_t kKiB = 1024;
constexpr std::int64_t kMiB = kKiB * kKiB;

constexpr const char* kPyTorch =
    "PyTorch, aten/src/ATen/cuda/CublasHandlePool.cpp: 2 x 4096 KiB + 8 x 16 KiB, 32 MiB from "
    "compute capability 9 on";
constexpr const char* kRocm =
    "PyTorch, aten/src/ATen/cuda/CublasHandlePool.cpp for ROCm: 128 MiB on MI300 and MI350";
constexpr const char* kEngine =
    "NVIDIA/TransformerEngine, transformer_engine/pytorch: 4 MiB, 32 MiB and 1,024 bytes from "
    "compute capability 9 on";
constexpr const char* kUnknown = "not known";

constexpr SourcedBytes kBeforeHopper{kKiB * 2 * 4096 + kKiB * 8 * 16, kPyTorch};
constexpr SourcedBytes kFromHopper{32 * kMiB, kPyTorch};
constexpr SourcedBytes kEngineBeforeHopper{4 * kMiB, kEngine};
constexpr SourcedBytes kEngineFromHopper{32 * kMiB + kKiB, kEngine};
constexpr SourcedBytes kOnRocm{128 * kMiB, kRocm};
constexpr SourcedBytes kNone{0, kUnknown};

constexpr std::array<Architecture, 10> kArchitectures = {{
    {"ampere", "A100 A800", kBeforeHopper, kEngineBeforeHopper},
    {"hopper", "H100 H200 H800 H20 GH200", kFromHopper, kEngineFromHopper},
    {"blackwell", "B100 B200", kFromHopper, kEngineFromHopper},
    {"blackwell_ultra", "B300", kFromHopper, kEngineFromHopper},
    {"cdna3", "MI300 MI325", kOnRocm, kNone},
    {"cdna4", "MI350 MI355", kOnRocm, kNone},
    {"tpu", "TPU", kNone, kNone},
    {"trainium", "Trainium", kNone, kNone},
    {"gaudi", "Gaudi", kNone, kNone},
    {"other", "", kNone, kNone},
}};

// Whether one of `words`, which spaces separate, stands in `text`.
bool has_word_of(std::string_view text, std::string_view words) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    if (text.find(words.substr(0, end)) != std::string_view::npos) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

}  // namespace

std::span<const Architecture> all_architectures() { return kArchitectures; }

const Architecture* find_architecture(std::string_view name) {
  const auto* found = std::ranges::find(kArchitectures, name, &Architecture::name);
  return found == kArchitectures.end() ? nullptr : found;
}

const Architecture& architecture_of_device(std::string_view device) {
  const auto* found = std::ranges::find_if(kArchitectures, [device](const Architecture& row) {
    return has_word_of(device, row.devices);
  });
  return found == kArchitectures.end() ? kArchitectures.back() : *found;
}

}  // namespace shardsim

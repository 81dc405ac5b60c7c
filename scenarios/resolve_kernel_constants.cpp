#include <algorithm>
#include <cstddef>
#include <map>
#include <string>

#include <fmt/format.h>

#include "sim/hardware/kernels/kernel_constants.hpp"
#include "sim/hardware/kernels/replaced_constants.hpp"

#include "scenarios/resolve.hpp"

// Checks of constants of kernels that a scenario has in place of a GPU's.
namespace shardsim {

namespace {

constexpr const char* kReplacedList = "system.device.kernel_constants";

void refuse_constant(Reading& r, std::size_t index, const char* key, const std::string& message,
                     const std::string& help) {
  const FieldState state = r.item(kReplacedList, index, key);
  r.problems.add("E0229", state.span, state.pointer, message, help);
}

bool is_read(const Reading& r, std::size_t index) {
  return r.item(kReplacedList, index, "name").good && r.item(kReplacedList, index, "value").good &&
         r.item(kReplacedList, index, "source").good;
}

// REQUIRES: is_read().
void check_constant(Reading& r, std::size_t index, std::map<std::string, std::size_t>& places) {
  const KernelConstantSpec& spec = r.scenario.system.device.kernel_constants[index];
  const auto [before, is_first] = places.emplace(spec.name, index);
  if (!is_first) {
    refuse_constant(
        r, index, "name",
        fmt::format("{} is replaced by entry {} already", spec.name, before->second + 1),
        "leave one of them out");
  }
  const ConstantLimits limits = limits_of_constant(spec.name);
  if (!limits.allow(spec.value)) {
    refuse_constant(r, index, "value", fmt::format("{} cannot be {}", spec.name, spec.value),
                    "give " + limits.words());
  }
  if (spec.source.empty()) {
    refuse_constant(r, index, "source", "the value of " + spec.name + " has no source",
                    "say where it was measured: results list it");
  }
}

// The rates without which a library has no price.
bool brings_rates_of(const DeviceSpec& device, const std::string& library) {
  const auto brings = [&](const char* rate) {
    return std::ranges::any_of(device.kernel_constants, [&](const KernelConstantSpec& spec) {
      return spec.name == library + rate;
    });
  };
  return brings("_forward_rate") && brings("_backward_rate");
}

void check_attention_library(Reading& r) {
  const SystemSpec& system = r.scenario.system;
  const KernelConstants* const kernels = find_kernel_constants(system.device.kernels);
  const auto wanted = find_attention_library(system.attention_library);
  if (!r.all_good({"system.attention_library", "system.device.kernels"}) || kernels == nullptr ||
      !wanted || kernels->has(*wanted) ||
      brings_rates_of(system.device, system.attention_library)) {
    return;
  }
  std::string others;
  for (std::size_t i = 0; i < kAttentionLibraries; ++i) {
    const auto each = static_cast<AttentionLibrary>(i);
    if (!kernels->has(each)) continue;
    others += (others.empty() ? "" : ", ") + std::string(name_of(each));
  }
  r.problem("E0230", "system.attention_library",
            fmt::format("there are no measurements of {} on {}", system.attention_library,
                        system.device.kernels),
            fmt::format("choose one that it has ({}), or measure it: shardsim calibrate kernels",
                        others));
}

}  // namespace

void resolve_kernel_constants(Reading& r) {
  check_attention_library(r);
  SystemSpec& system = r.scenario.system;
  const std::size_t count = system.device.kernel_constants.size();
  if (count == 0) return;
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < count; ++i) {
    // Its problem is told; later checks price with what the GPU has.
    if (!is_read(r, i)) return system.device.kernel_constants.clear();
    check_constant(r, i, places);
  }
  // A preset may bring constants to a scenario that asks for another model. Those that somebody
  // wrote would be trusted without effect.
  if (!r.all_good({"system.kernel_model", "system.device.kernels"}) ||
      system.kernel_model == "shapes" || !written_by_user(r.item(kReplacedList, 0, ""))) {
    return;
  }
  refuse_constant(r, 0, "",
                  "constants of kernels act where system.kernel_model is shapes, and it is " +
                      system.kernel_model,
                  "name the GPU that has the other constants in system.device.kernels, or leave "
                  "the list out");
}

}  // namespace shardsim

#include "scenarios/formats/emit.hpp"

#include <algorithm>

#include "sim/kernel/error.hpp"

#include "scenarios/suggest.hpp"

namespace shardsim {

const std::vector<std::string>& emitted_frameworks() {
  static const std::vector<std::string> kNames = {"megatron", "torchtitan", "deepspeed"};
  return kNames;
}

void require_framework(std::string_view name) {
  const std::vector<std::string>& names = emitted_frameworks();
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  const std::string near = nearest(std::string(name), names);
  throw UsageError("E1327", "no framework is called \"" + std::string(name) + "\"",
                   (near.empty() ? "" : "did you mean \"" + near + "\"? ") +
                       ("there are " + one_of_list(names)));
}

std::string emit_for(std::string_view framework, const Scenario& scenario) {
  if (framework == "megatron") return emit_megatron(scenario);
  return framework == "torchtitan" ? emit_torchtitan(scenario) : emit_deepspeed(scenario);
}

}  // namespace shardsim

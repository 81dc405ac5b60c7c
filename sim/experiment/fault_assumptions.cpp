#include <cstddef>

#include <fmt/format.h>

#include "sim/experiment/assumptions.hpp"

namespace shardsim {

namespace {

constexpr const char* kDocument = "modelling choice: docs/decisions/0047-faults.md";

std::string write_words(const FaultSpec& faults) {
  if (faults.checkpoint_write_s > 0) {
    return fmt::format("A checkpoint stops training for {} s", faults.checkpoint_write_s);
  }
  return fmt::format(
      "A checkpoint is the weights, master weights and optimizer state of the model once, and is "
      "written at {} GB/s while training waits",
      faults.checkpoint_gb_per_s);
}

std::string count_words(const FaultSpec& faults) {
  if (faults.observed_failures == 0) {
    return "How well the times between failures are known is not told, so there is no band";
  }
  return fmt::format(
      "The times between failures were counted from {} failures: the band is the 90 % interval of "
      "that count, exact to 100 (Garwood 1936), by Byar's approximation above, and of nothing else",
      faults.observed_failures);
}

}  // namespace

Assumptions fault_assumptions(const FaultSpec& faults) {
  Assumptions assumptions;
  if (faults.slows_steps()) {
    assumptions.push_back(
        {"Faults are those of the scenario, the whole run: " + faults_in_words(faults) +
             "; what uses a link goes at the pace of the worst one, and stands "
             "still while one is down",
         kDocument});
  }
  if (!faults.has_failures()) return assumptions;
  assumptions.push_back(
      {"Failures come independently, at a constant rate, also during checkpoints and restarts; "
       "each stops the whole job, which goes on from its last checkpoint",
       "Daly 2006; docs/decisions/0047-faults.md"});
  assumptions.push_back({write_words(faults), kDocument});
  assumptions.push_back({count_words(faults), kDocument});
  return assumptions;
}

std::string faults_in_words(const FaultSpec& faults) {
  std::string words;
  const auto add = [&words](std::size_t count, const char* name) {
    if (count == 0) return;
    words +=
        fmt::format("{}{} {}{}", words.empty() ? "" : ", ", count, name, count == 1 ? "" : "s");
  };
  add(faults.stragglers.size(), "straggler");
  add(faults.slow_links.size(), "slow link");
  add(faults.flapping_links.size(), "flapping link");
  return words;
}

}  // namespace shardsim

#include "sim/accuracy/row_traits.hpp"

#include <fmt/format.h>

#include "sim/kernel/dtype.hpp"

namespace shardsim {

namespace {

TraitValue word(std::string_view text) { return {std::string(text), std::nullopt}; }

TraitValue number(std::int64_t value) {
  return {fmt::format("{}", value), static_cast<double>(value)};
}

}  // namespace

std::optional<StepParts> step_parts_of(const Result& result) {
  StepParts parts{};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::optional<double> seconds = result.number(std::string(kStepParts.at(i).metric));
    if (!seconds) return std::nullopt;
    parts.at(i) = *seconds;
  }
  return parts;
}

RowTraits row_traits_of(const Experiment& experiment) {
  const Scenario& scenario = experiment.scenario();
  const ModelSpec& model = scenario.model;
  const TrainingSpec& training = scenario.training;
  const ParallelismSpec& layout = scenario.parallelism;
  const std::int64_t ranks = scenario.system.ranks;
  const std::int64_t positions = experiment.plan().whole().positions_per_sample();
  return {word(scenario.system.software),
          word(scenario.system.name),
          word(name_of(training.product_dtype())),
          number(ranks),
          number(layout.tp),
          number(layout.pp),
          number(training.micro_batch_size),
          number(training.global_batch_size * positions / ranks),
          number(positions),
          number(model.num_layers),
          number(model.hidden_size)};
}

}  // namespace shardsim

#include "strategies/pipeline/stage_split.hpp"

#include <string>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

std::string text_of(std::int64_t number) { return std::to_string(number); }

// The layers of a model, and what stands before and behind them.
struct Parts {
  explicit Parts(const Model& model)
      : layers(model.layer_modules()),
        before(layers.first),
        after(model.num_modules() - layers.first - layers.count) {}

  ModuleRange layers;
  int before;
  int after;
};

void require_enough(const Parts& parts, int num_stages, const StageSplit& split) {
  if (split.account_for_embedding && parts.before == 0) {
    throw UsageError("E0711", "this model has no embedding that could count as a layer",
                     "leave account_for_embedding out");
  }
  const std::int64_t layers = std::int64_t{parts.layers.count} +
                              (split.account_for_embedding ? 1 : 0) +
                              (split.account_for_loss ? 1 : 0);
  if (num_stages <= layers) return;
  throw UsageError("E0711",
                   text_of(num_stages) + " pipeline stages, but the model has only " +
                       text_of(layers) + " layers to give them",
                   "use fewer stages or chunks, or a deeper model; embedding and head can count as "
                   "layers of their own");
}

void require_fits(const Parts& parts, int num_stages, const std::vector<std::int64_t>& layers) {
  const std::string help = "give every stage a number of layers; they add up to the model's";
  if (layers.size() != static_cast<std::size_t>(num_stages)) {
    throw UsageError("E0712",
                     "layers of " + text_of(static_cast<std::int64_t>(layers.size())) +
                         " stages are given, but there are " + text_of(num_stages),
                     help);
  }
  std::int64_t sum = 0;
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    const bool has_more =
        (stage == 0 && parts.before > 0) || (stage + 1 == layers.size() && parts.after > 0);
    // No stage has more than all, so that the sum stays small.
    if (layers[stage] < (has_more ? 0 : 1) || layers[stage] > parts.layers.count) {
      throw UsageError("E0712",
                       "stage " + std::to_string(stage) + " cannot have " + text_of(layers[stage]) +
                           " of " + text_of(parts.layers.count) + " layers",
                       "only a stage with the embedding or the head may have none");
    }
    sum += layers[stage];
  }
  if (sum != parts.layers.count) {
    throw UsageError("E0712",
                     "the stages have " + text_of(sum) + " layers in all, but the model has " +
                         text_of(parts.layers.count),
                     help);
  }
}

}  // namespace

std::vector<std::int64_t> even_stage_layers(std::int64_t num_layers, std::int64_t num_stages,
                                            const StageSplit& split) {
  const std::int64_t all =
      num_layers + (split.account_for_embedding ? 1 : 0) + (split.account_for_loss ? 1 : 0);
  std::vector<std::int64_t> layers(static_cast<std::size_t>(num_stages), all / num_stages);
  for (std::int64_t stage = 0; stage < all % num_stages; ++stage) {
    ++layers[static_cast<std::size_t>(stage)];
  }
  if (split.account_for_embedding) --layers.front();
  if (split.account_for_loss) --layers.back();
  return layers;
}

std::vector<ModuleRange> split_modules(const Model& model, int num_stages,
                                       const StageSplit& split) {
  const Parts parts(model);
  std::vector<std::int64_t> layers = split.layers;
  if (layers.empty()) {
    require_enough(parts, num_stages, split);
    layers = even_stage_layers(parts.layers.count, num_stages, split);
  }
  require_fits(parts, num_stages, layers);
  std::vector<ModuleRange> stages;
  int first = parts.before;
  for (const std::int64_t count : layers) {
    stages.push_back({first, static_cast<int>(count)});
    first += static_cast<int>(count);
  }
  stages.front().first = 0;
  stages.front().count += parts.before;
  stages.back().count += parts.after;
  return stages;
}

}  // namespace shardsim

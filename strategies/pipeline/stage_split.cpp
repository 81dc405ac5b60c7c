#include "strategies/pipeline/stage_split.hpp"

#include <algorithm>
#include <string>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

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
  if (split.account_for_embedding && parts.before <= 0) {
    throw UsageError("E0711", "this model has no embedding that could count as a layer",
                     "leave account_for_embedding out");
  }
  const std::int64_t layers = std::int64_t{parts.layers.count} +
                              (split.account_for_embedding ? 1 : 0) +
                              (split.account_for_loss ? 1 : 0);
  if (num_stages > layers) {
    throw UsageError(
        "E0711",
        concat(num_stages, " pipeline stages, but the model has only ", layers,
               " layers to give them"),
        "use fewer stages or chunks, or a deeper model; embedding and head can count as "
        "layers of their own");
  }
}

void require_fits(const Parts& parts, int num_stages, const std::vector<std::int64_t>& layers) {
  const std::string help = "give every stage a number of layers; they add up to the model's";
  if (layers.size() != index_of(num_stages)) {
    throw UsageError(
        "E0712",
        concat("layers of ", layers.size(), " stages are given, but there are ", num_stages), help);
  }
  std::int64_t sum = 0;
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    const bool has_more =
        (stage == 0 && parts.before > 0) || (stage + 1 == layers.size() && parts.after > 0);
    // No stage has more than all, so that the sum stays small.
    if (layers[stage] < (has_more ? 0 : 1) || layers[stage] > parts.layers.count) {
      throw UsageError("E0712",
                       concat("stage ", stage, " cannot have ", layers[stage], " of ",
                              parts.layers.count, " layers"),
                       "only a stage with the embedding or the head may have none");
    }
    sum += layers[stage];
  }
  if (sum != parts.layers.count) {
    throw UsageError(
        "E0712",
        concat("the stages have ", sum, " layers in all, but the model has ", parts.layers.count),
        help);
  }
}

// Distributes the remainder of an even division over all stages to ranks with several stages.
class Remainder {
 public:
  Remainder(std::vector<std::int64_t>& layers, std::int64_t left, const StageSplit& split)
      : layers_(layers),
        left_(left),
        // The rank with the most layers gets this many more.
        room_((left + split.num_ranks - 1) / split.num_ranks),
        chunks_(index_of(split.num_ranks)) {
    PipelineSchedule places;
    places.shape = {split.num_ranks, static_cast<int>(layers.size()) / split.num_ranks, 1};
    places.placement = split.placement;
    for (int stage = places.num_stages() - 1; stage >= 0; --stage) {
      chunks_[index_of(places.rank_of(stage))].push_back(stage);
    }
    if (split.account_for_loss) return;
    head_ = index_of(places.rank_of(places.num_stages() - 1));
    std::reverse(chunks_[head_].begin(), chunks_[head_].end());
  }

  // Gives a layer to this stage before any other, if its rank has room.
  void give_first(int stage) {
    for (std::size_t rank = 0; rank < chunks_.size(); ++rank) {
      std::vector<int>& chunks = chunks_[rank];
      const auto found = std::find(chunks.begin(), chunks.end(), stage);
      if (found == chunks.end() || left_ == 0 || given(rank) == room_) continue;
      std::rotate(chunks.begin() + given(rank), found, found + 1);
      give(rank);
    }
  }

  // Gives each layer to the rank that got least, the last of equals; to the head's rank at the end.
  void give_all() {
    while (left_ > 0) {
      std::size_t to = head_;
      for (std::size_t rank = 0; rank < chunks_.size(); ++rank) {
        if (rank == head_ || given(rank) == room_) continue;
        if (to == head_ || given(rank) <= given(to)) to = rank;
      }
      give(to);
    }
  }

 private:
  static constexpr auto kNone = static_cast<std::size_t>(-1);

  [[nodiscard]] std::int64_t given(std::size_t rank) const {
    return static_cast<std::int64_t>(given_[rank]);
  }
  void give(std::size_t rank) {
    ++layers_[index_of(chunks_[rank][given_[rank]])];
    ++given_[rank];
    --left_;
  }

  std::vector<std::int64_t>& layers_;
  std::int64_t left_;
  std::int64_t room_;
  std::vector<std::vector<int>> chunks_;  // By rank, in the order in which they get more.
  std::vector<std::size_t> given_ = std::vector<std::size_t>(chunks_.size(), 0);
  std::size_t head_ = kNone;
};

}  // namespace

std::vector<std::int64_t> even_stage_layers(std::int64_t num_layers, std::int64_t num_stages,
                                            const StageSplit& split) {
  const std::int64_t all =
      num_layers + (split.account_for_embedding ? 1 : 0) + (split.account_for_loss ? 1 : 0);
  std::vector<std::int64_t> layers(index_of(num_stages), all / num_stages);
  const std::int64_t left = all % num_stages;
  if (split.num_ranks == 0 || split.num_ranks == num_stages) {
    for (std::int64_t stage = 0; stage < left; ++stage) ++layers[index_of(stage)];
  } else {
    Remainder remainder(layers, left, split);
    // Only embedding or head that counts as a layer may leave a stage without one.
    if (split.account_for_embedding && layers.front() == 1) remainder.give_first(0);
    if (split.account_for_loss && layers.back() == 1) {
      remainder.give_first(static_cast<int>(num_stages) - 1);
    }
    remainder.give_all();
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

#include <algorithm>
#include <string>
#include <utility>

#include "sim/kernel/error.hpp"
#include "sim/kernel/hash.hpp"

#include "strategies/checkpoint/checkpoint_error.hpp"
#include "strategies/sharded_optimizer/agreement.hpp"
#include "strategies/sharded_optimizer/sharded_optimizer.hpp"

// The state as a value: out of a rank's memory, and into that of a rank of any layout.
namespace shardsim {

namespace {

// Settings that make an update of a gradient, as a state keeps them: "optimizer.learning_rate" and
// all others of the wrapped optimizer, including those that it does not read, "regularization.l1"
// and "regularization.l2".
Scalars option_scalars(const OptimizerOptions& options, const Regularization& penalty) {
  static_assert(sizeof(OptimizerOptions) == 7 * sizeof(double), "a new option is saved, too");
  static_assert(sizeof(Regularization) == 2 * sizeof(double), "a new penalty is saved, too");
  return {{"optimizer.learning_rate", options.learning_rate},
          {"optimizer.momentum", options.momentum},
          {"optimizer.beta1", options.beta1},
          {"optimizer.beta2", options.beta2},
          {"optimizer.epsilon", options.epsilon},
          {"optimizer.weight_decay", options.weight_decay},
          {"optimizer.rms_alpha", options.rms_alpha},
          {"regularization.l1", penalty.l1},
          {"regularization.l2", penalty.l2}};
}

// A chunk's elements on their way in, and which of them have come.
struct Found {
  std::vector<std::byte> bytes;
  std::vector<bool> covered;
};

// Copies what `part` and the chunk have in common.
void copy_common(const SerializedState::Part& part, const HeldChunk& chunk, Found& found) {
  const std::int64_t size = size_of(chunk.tensor.dtype);
  std::int64_t to = 0;
  for (const ElementRun& wanted : chunk.elements) {
    std::int64_t from = 0;
    const auto copy = [&](std::int64_t, std::int64_t count, std::int64_t there, std::int64_t here) {
      std::copy_n(part.bytes.begin() + (from + there) * size, count * size,
                  found.bytes.begin() + (to + here) * size);
      std::fill_n(found.covered.begin() + to + here, count, true);
    };
    for (const ElementRun& there : part.elements) {
      for_each_overlap(there, wanted, copy);
      from += there.count * there.repeats;
    }
    to += wanted.count * wanted.repeats;
  }
}

// REQUIRES: all of them are there.
TrainingProgress progress_of(const Scalars& scalars) {
  const auto get = [&](const char* name, auto& value) {
    value = std::get<std::decay_t<decltype(value)>>(scalars.find(name)->second);
  };
  TrainingProgress progress;
  get("updates", progress.updates);
  get("loss_scale", progress.loss_scale.scale);
  get("loss_scale.good_steps", progress.loss_scale.good_steps);
  get("loss_scale.overflows_left", progress.loss_scale.overflows_left);
  return progress;
}

// Refuses progress that no rule of loss scaling can reach: another rule may continue from it.
void require_sound(const Scalars& scalars) {
  const TrainingProgress progress = progress_of(scalars);
  const auto steps = std::get<std::int64_t>(scalars.find("step")->second);
  const LossScaleState& scale = progress.loss_scale;
  if (scale.good_steps >= 0 && scale.good_steps <= progress.updates && progress.updates <= steps &&
      is_loss_scale(scale.scale) && scale.overflows_left >= 0) {
    return;
  }
  throw CheckpointError(CheckpointProblem::disagreement,
                        "the state has made " + std::to_string(progress.updates) + " updates in " +
                            std::to_string(steps) + " steps and has loss scale " +
                            std::to_string(scale.scale) + " after " +
                            std::to_string(scale.good_steps) + " good steps, with " +
                            std::to_string(scale.overflows_left) + " overflows left");
}

// Hash of all scalars, in as many bits as a double holds exactly.
std::int64_t hash_of(const Scalars& scalars) {
  RollingHash hash;
  for (const auto& [name, value] : scalars) {
    hash.add(hash_text(name));
    hash.add(hash_text(describe(value)));
  }
  return static_cast<std::int64_t>(hash.value() >> 12U);
}

// Requires states of one step of one training, with the sizes that they claim.
void require_one_state(std::span<const SerializedState> states) {
  if (states.empty()) {
    throw CheckpointError(CheckpointProblem::gap, "there is no state to continue from");
  }
  for (const SerializedState& state : states) {
    if (hash_of(state.scalars) != hash_of(states.front().scalars)) {
      throw CheckpointError(CheckpointProblem::disagreement,
                            "the states are not of one step of one training");
    }
    for (const SerializedState::Part& part : state.parts) {
      const auto problem = problem_of(part.tensor, part.elements, part.bytes.size());
      if (problem) throw CheckpointError(CheckpointProblem::bad_chunk, *problem);
    }
  }
}

// Copies first, so that what an owner says holds in the end.
std::vector<std::byte> find(std::span<const SerializedState> states, const HeldChunk& chunk) {
  const auto wanted = static_cast<std::size_t>(num_elements(chunk.elements));
  Found found{
      std::vector<std::byte>(wanted * static_cast<std::size_t>(size_of(chunk.tensor.dtype))),
      std::vector<bool>(wanted)};
  for (const bool main : {false, true}) {
    for (const SerializedState& state : states) {
      for (const SerializedState::Part& part : state.parts) {
        if (part.main != main || part.tensor.name != chunk.tensor.name) continue;
        if (part.tensor != chunk.tensor) {
          throw CheckpointError(CheckpointProblem::no_such_tensor,
                                "\"" + part.tensor.name + "\" is " + describe(part.tensor) +
                                    " in the state, and " + describe(chunk.tensor) + " here");
        }
        copy_common(part, chunk, found);
      }
    }
  }
  if (std::find(found.covered.begin(), found.covered.end(), false) != found.covered.end()) {
    throw CheckpointError(CheckpointProblem::gap, "the states do not hold all of \"" +
                                                      chunk.tensor.name + "\" that this rank has");
  }
  return std::move(found.bytes);
}

}  // namespace

SerializedState ShardedOptimizer::serialize() const {
  model_.require_one_model("serialize");
  SerializedState state;
  model_.runtime().off_the_clock([&] {
    state.scalars = scalars();
    for (const HeldChunk& chunk :
         held_chunks(model_.plan(), model_.place(), model_.gradient_sync())) {
      const std::int64_t elements = num_elements(chunk.elements);
      SerializedState::Part& part = state.parts.emplace_back();
      part = {chunk.tensor, chunk.elements, {}, chunk.main};
      part.bytes.resize(static_cast<std::size_t>(elements * size_of(chunk.tensor.dtype)));
      copy_out(chunk, part.bytes);
    }
  });
  return state;
}

void ShardedOptimizer::deserialize(std::span<const SerializedState> states, SavedOptions options) {
  model_.require_one_model("deserialize");
  const std::vector<HeldChunk> chunks =
      held_chunks(model_.plan(), model_.place(), model_.gradient_sync());
  std::vector<std::vector<std::byte>> found;
  SaveStatus status;
  std::int64_t hash = 0;
  model_.require_no_gradients("deserialize");
  model_.runtime().off_the_clock([&] {
    status = attempt(rank(), [&] {
      require_one_state(states);
      check(states.front().scalars, options);
      for (const HeldChunk& chunk : chunks) found.push_back(find(states, chunk));
      hash = hash_of(states.front().scalars);
    });
  });
  raise_load_failure(agree(model_.runtime(), model_.world(), status), "a serialized state");
  if (!is_equal_everywhere(model_.runtime(), model_.world(), hash)) {
    throw CheckpointError(CheckpointProblem::disagreement,
                          "ranks were given states of different steps, or trainings");
  }
  model_.runtime().off_the_clock([&] {
    for (std::size_t i = 0; i < chunks.size(); ++i) copy_in(found[i], chunks[i]);
    restore(states.front().scalars);
  });
}

Scalars ShardedOptimizer::scalars() const {
  Scalars scalars = {
      {"step", model_.steps()},
      {"seed", model_.plan().options().training.seed},
      {"global_batch_size", model_.global_batch_size()},
      {"updates", model_.progress().updates},
      {"loss_scaling", std::string(name_of(model_.plan().options().training.loss_scaling.mode))},
      {"loss_scale", model_.progress().loss_scale.scale},
      {"loss_scale.good_steps", model_.progress().loss_scale.good_steps},
      {"loss_scale.overflows_left", model_.progress().loss_scale.overflows_left},
      {"optimizer", std::string(wrapped_->name())},
      {"loss.previous", training_.previous},
      {"loss.change", training_.change},
      {"loss.best", training_.best},
      {"loss.since_best", training_.since_best}};
  scalars.merge(option_scalars(wrapped_->options(), options_.regularization));
  return scalars;
}

// Every scalar is there and of its type; what cannot be changed any more is what it was.
void ShardedOptimizer::check(const Scalars& scalars, SavedOptions options) const {
  const Scalars own_options = option_scalars(wrapped_->options(), options_.regularization);
  const Scalars own = this->scalars();
  for (const auto& [name, value] : own) {
    const bool is_option = own_options.count(name) > 0;
    if (is_option && options == SavedOptions::keep_own) continue;
    const char* const way_out =
        is_option ? "; SavedOptions::keep_own goes on with the options of here" : "";
    const auto found = scalars.find(name);
    if (found == scalars.end() || found->second.index() != value.index()) {
      throw CheckpointError(
          CheckpointProblem::no_such_scalar,
          "the state has no \"" + name + "\" such as " + describe(value) + way_out);
    }
    // A scale that does not move is part of what the run is told.
    const bool is_dynamic =
        model_.plan().options().training.loss_scaling.mode == LossScaling::Mode::dynamic;
    // Data are counted in global batches.
    const bool is_fixed = is_option || name == "seed" || name == "global_batch_size" ||
                          name == "optimizer" || name == "loss_scaling" ||
                          (name == "loss_scale" && !is_dynamic);
    if (is_fixed && !same_scalar(found->second, value)) {
      throw CheckpointError(CheckpointProblem::disagreement,
                            "\"" + name + "\" is " + describe(found->second) +
                                " in the state, and " + describe(value) + " here" + way_out);
    }
  }
  require_sound(scalars);
}

void ShardedOptimizer::restore(const Scalars& scalars) {
  const auto get = [&](const char* name, auto& value) {
    value = std::get<std::decay_t<decltype(value)>>(scalars.find(name)->second);
  };
  std::int64_t steps = 0;
  get("step", steps);
  model_.set_steps(steps, progress_of(scalars));
  get("loss.previous", training_.previous);
  get("loss.change", training_.change);
  get("loss.best", training_.best);
  get("loss.since_best", training_.since_best);
  validation_ = {};  // A rank's own, of what it was before.
}

}  // namespace shardsim

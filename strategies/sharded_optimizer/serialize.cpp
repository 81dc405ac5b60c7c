#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "sim/kernel/error.hpp"
#include "sim/kernel/hash.hpp"

#include "strategies/checkpoint/checkpoint_error.hpp"
#include "strategies/checkpoint/load.hpp"
#include "strategies/checkpoint/names.hpp"
#include "strategies/sharded_optimizer/sharded_optimizer.hpp"

// The state as a value: out of a rank's memory, and into that of a rank of any layout; and through
// checkpoints of all ranks.
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
  for_each_overlap(chunk.elements, part.elements,
                   [&](std::int64_t count, std::int64_t to, std::int64_t from) {
                     std::copy_n(part.bytes.begin() + from * size, count * size,
                                 found.bytes.begin() + to * size);
                     std::fill_n(found.covered.begin() + to, count, true);
                   });
}

// Sets `value` to a scalar. REQUIRES: it is there, and of that type.
template <class Value>
void take(const Scalars& scalars, const char* name, Value& value) {
  value = std::get<Value>(scalars.find(name)->second);
}

// REQUIRES: all of them are there.
TrainingProgress progress_of(const Scalars& scalars) {
  TrainingProgress progress;
  take(scalars, "updates", progress.updates);
  take(scalars, "loss_scale", progress.loss_scale.scale);
  take(scalars, "loss_scale.good_steps", progress.loss_scale.good_steps);
  take(scalars, "loss_scale.overflows_left", progress.loss_scale.overflows_left);
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
  throw CheckpointError(
      CheckpointProblem::disagreement,
      concat("the state has made ", progress.updates, " updates in ", steps,
             " steps and has loss scale ", scale.scale, " after ", scale.good_steps,
             " good steps, with ", scale.overflows_left, " overflows left"));
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
  const auto wanted = to_size(num_elements(chunk.elements));
  Found found{std::vector<std::byte>(wanted * to_size(size_of(chunk.tensor.dtype))),
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

std::vector<HeldChunk> held_by(const ShardedModel& model) {
  return held_chunks(model.plan(), model.place(), model.gradient_sync(), model.state());
}

// Where the elements of a held chunk will stand, all zero.
SerializedState::Part part_for(const HeldChunk& chunk) {
  const std::int64_t size = num_elements(chunk.elements) * size_of(chunk.tensor.dtype);
  return {chunk.tensor, chunk.elements, std::vector<std::byte>(to_size(size)), chunk.main};
}

// Calls copy(memory of the chunk, its place in bytes that hold the chunk's elements, size).
template <class Copy>
void for_each_stretch(const HeldChunk& chunk, const Copy& copy) {
  std::size_t at = 0;
  for (const Tensor& values : chunk.values) {
    const auto size = to_size(values.num_bytes());
    copy(values.data(), at, size);
    at += size;
  }
}

// The worst status of all ranks, the same on each of them; with its detail on the rank that it is
// of. No rank throws before all have met: one that left early would leave the others waiting.
SaveStatus agree(Runtime& runtime, Communicator& world, const SaveStatus& own) {
  const Tensor number = runtime.allocate(MemoryCategory::comm, {1}, DType::int64);
  runtime.write_scalar(number, static_cast<double>(own.number()));
  world
      .all_reduce(number, ReduceOp::max,
                  {.label = "checkpoint status", .traffic = TrafficClass::scalar})
      .wait();
  const auto worst = static_cast<std::int64_t>(runtime.read_scalar(number));
  return worst == own.number() ? own : SaveStatus::from_number(worst);
}

// Whether all ranks give the same number, below 2^53; the same answer on each. True without data.
bool is_equal_everywhere(Runtime& runtime, Communicator& world, std::int64_t own) {
  const Tensor extremes = runtime.allocate(MemoryCategory::comm, {2}, DType::int64);
  runtime.off_the_clock([&] {
    extremes.set(0, static_cast<double>(own));
    extremes.set(1, -static_cast<double>(own));
  });
  world
      .all_reduce(extremes, ReduceOp::max,
                  {.label = "checkpoint agreement", .traffic = TrafficClass::scalar})
      .wait();
  bool equal = true;
  runtime.off_the_clock([&] { equal = extremes.get(0) == -extremes.get(1); });
  return equal;
}

constexpr CallOptions kReport{.label = "checkpoint report", .traffic = TrafficClass::scalar};

// The texts of all ranks, on rank 0; elsewhere nothing.
std::vector<std::string> gather_texts(Runtime& runtime, Communicator& world,
                                      const std::string& text) {
  const auto allocate = [&](std::int64_t count, DType dtype) {
    return runtime.allocate(MemoryCategory::comm, {count}, dtype);
  };
  const Tensor length = allocate(1, DType::int64);
  const Tensor lengths = allocate(world.size(), DType::int64);
  runtime.write_scalar(length, static_cast<double>(text.size()));
  world.all_gather(lengths, length, kReport).wait();
  std::vector<std::int64_t> counts(to_size(world.size()));
  runtime.off_the_clock([&] {
    for (int rank = 0; rank < world.size(); ++rank) {
      counts[to_size(rank)] = static_cast<std::int64_t>(lengths.get(rank));
    }
  });
  const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  const Tensor own = allocate(static_cast<std::int64_t>(text.size()), DType::int8);
  runtime.off_the_clock([&] { std::memcpy(own.data(), text.data(), text.size()); });
  const bool is_root = world.rank() == 0;
  const Tensor all = is_root ? allocate(total, DType::int8) : Tensor();
  CallOptions options = kReport;
  options.counts = counts;
  world.gather(all, own, 0, options).wait();
  if (!is_root) return {};
  std::vector<std::string> texts;
  runtime.off_the_clock([&] {
    std::int64_t at = 0;
    for (const std::int64_t count : counts) {
      std::string& received = texts.emplace_back(to_size(count), ' ');
      std::memcpy(received.data(), all.view(at, {count}).data(), received.size());
      at += count;
    }
  });
  return texts;
}

std::vector<Chunk> main_chunks(const SerializedState& state) {
  std::vector<Chunk> chunks;
  for (const SerializedState::Part& part : state.parts) {
    if (!part.main) continue;
    chunks.push_back({.tensor = part.tensor, .elements = part.elements, .bytes = part.bytes});
  }
  return chunks;
}

}  // namespace

SerializedState ShardedOptimizer::serialize() const {
  model_.require_one_model("serialize");
  SerializedState state;
  model_.runtime().off_the_clock([&] {
    state.scalars = scalars();
    for (const HeldChunk& chunk : held_by(model_)) {
      std::byte* const bytes = state.parts.emplace_back(part_for(chunk)).bytes.data();
      for_each_stretch(chunk, [&](const std::byte* memory, std::size_t at, std::size_t size) {
        std::memcpy(bytes + at, memory, size);
      });
    }
  });
  return state;
}

void ShardedOptimizer::deserialize(std::span<const SerializedState> states, SavedOptions options) {
  model_.require_one_model("deserialize");
  const std::vector<HeldChunk> chunks = held_by(model_);
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
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      for_each_stretch(chunks[i], [&](std::byte* memory, std::size_t at, std::size_t size) {
        std::memcpy(memory, found[i].data() + at, size);
      });
    }
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
  std::int64_t steps = 0;
  take(scalars, "step", steps);
  model_.set_steps(steps, progress_of(scalars));
  take(scalars, "loss.previous", training_.previous);
  take(scalars, "loss.change", training_.change);
  take(scalars, "loss.best", training_.best);
  take(scalars, "loss.since_best", training_.since_best);
  validation_ = {};  // A rank's own, of what it was before.
}

void ShardedOptimizer::save_model(FileSystem& files, const std::string& directory) {
  model_.require_one_model("save_model");
  Runtime& runtime = model_.runtime();
  Communicator& world = model_.world();
  // A plan saves nothing, whatever it replays: of the files nothing is known, not even their sizes.
  bool has_values = false;
  runtime.off_the_clock([&] { has_values = true; });
  if (!has_values) return;
  const CheckpointPlace place{.directory = directory, .step = model_.steps()};
  SaveStatus status;
  {
    const SerializedState state = serialize();
    const RankWrite written =
        write_rank_file(files, place, rank(), main_chunks(state), state.scalars);
    status = agree(runtime, world, written.status);
    if (status.ok()) {
      const std::vector<std::string> texts = gather_texts(runtime, world, to_text(written.report));
      std::vector<RankReport> reports;  // On rank 0.
      for (const std::string& text : texts) reports.push_back(parse_report(text));
      if (rank() == 0) status = commit(files, place, reports);
      status = agree(runtime, world, status);
    }
  }
  if (status.ok()) return;
  if (rank() == 0) discard(files, place);
  raise_if_failed(status, place);
}

void ShardedOptimizer::load_model(FileSystem& files, const CheckpointPlace& place,
                                  SavedOptions options) {
  model_.require_one_model("load_model");
  Runtime& runtime = model_.runtime();
  SerializedState state;
  SaveStatus status;
  runtime.off_the_clock([&] {
    status = attempt(rank(), [&] {
      CheckpointReader reader(files, place);
      // Each opens what it needs; a file that nobody needs must be there all the same.
      if (rank() == 0) reader.find_files();
      state.scalars = reader.scalars();
      std::vector<ChunkRequest> requests;
      for (const HeldChunk& chunk : held_by(model_)) {
        SerializedState::Part& part = state.parts.emplace_back(part_for(chunk));
        requests.push_back({.tensor = part.tensor, .elements = part.elements, .bytes = part.bytes});
      }
      reader.load(requests);
    });
  });
  raise_load_failure(agree(runtime, model_.world(), status), "\"" + step_folder(place) + "\"");
  deserialize(state, options);
}

}  // namespace shardsim

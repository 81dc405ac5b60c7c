#include "strategies/gradient_sync/owned_state.hpp"

#include <optional>
#include <utility>

namespace shardsim {

namespace {

// to = from, converted; one memory-bound operation.
void convert(Runtime& runtime, const Tensor& to, const Tensor& from) {
  runtime.compute(memory_op("convert_weights", to.dtype(), to.num_bytes() + from.num_bytes()), [&] {
    for (std::int64_t i = 0; i < to.numel(); ++i) to.set(i, from.get(i));
  });
}

}  // namespace

OuterUpdate::OuterUpdate(const SyncPlan& plan, Runtime& runtime, const Mesh& mesh,
                         std::int64_t total)
    : plan_(plan), runtime_(runtime), mesh_(mesh) {
  if (!plan.local.acts() || !plan.local.outer_optimizer) return;
  start_ = runtime.allocate(MemoryCategory::optimizer, {total}, plan.master_dtype);
  momentum_ = runtime.allocate(MemoryCategory::optimizer, {total}, plan.master_dtype);
}

void OuterUpdate::apply(const Part& part, const CallOptions& options) {
  const LocalTraining& local = plan_.local;
  const Tensor& master = part.master;
  if (local.outer_optimizer) {
    runtime_.compute(memory_op("outer_gradient", master.dtype(), 3 * master.num_bytes()), [&] {
      for (std::int64_t i = 0; i < master.numel(); ++i) {
        master.set(i, part.start.get(i) - master.get(i));
      }
    });
  }
  Communicator* const replicas = mesh_.replicas(plan_.kind).replicate;
  if (replicas != nullptr) replicas->all_reduce(master, ReduceOp::avg, options).wait();
  if (!local.outer_optimizer) return;
  // SGD with Nesterov momentum as torch.optim.SGD has it.
  runtime_.compute(memory_op("outer_step", master.dtype(), 6 * master.num_bytes()), [&] {
    for (std::int64_t i = 0; i < master.numel(); ++i) {
      const double gradient = master.get(i);
      const double buffer = local.outer_momentum * part.momentum.get(i) + gradient;
      const double direction = gradient + local.outer_momentum * buffer;
      const double weight = part.start.get(i) - local.outer_learning_rate * direction;
      part.momentum.set(i, buffer);
      part.start.set(i, weight);
      master.set(i, weight);
    }
  });
}

OwnedState::OwnedState(const SyncPlan& plan, Runtime& runtime, const Mesh& mesh, int num_owners)
    : plan_(plan),
      runtime_(runtime),
      parts_of_rank_{.tensor = mesh.tp(), .expert = mesh.expert_part()},
      owner_(num_owners > 1 ? mesh.replicas(plan.kind).shard_rank : 0),
      num_owners_(num_owners),
      matrices_(
          plan, runtime, mesh,
          num_owners > 1 && plan.muon && plan.muon->data_parallel == MuonDataParallel::slices),
      outer_(plan, runtime, mesh, plan.layout->padded() / num_owners) {
  const Shape shape{total()};
  if (plan.master_dtype != plan.weight_dtype) {
    master_ = allocate_home(runtime, plan.offload_optimizer, MemoryCategory::optimizer, shape,
                            plan.master_dtype);
  }
  for (const std::string_view name : plan.optimizer->state_names()) add_state(name, false);
  if (plan.muon) add_state(kMuonState, true);
}

void OwnedState::add_state(std::string_view name, bool matrices) {
  const std::int64_t elements = plan_.layout->padded_of(matrices) / num_owners_;
  if (elements == 0) return;
  state_.push_back({name, matrices,
                    allocate_home(runtime_, plan_.offload_optimizer, MemoryCategory::optimizer,
                                  {elements}, plan_.state(/*of_muon=*/matrices))});
}

Tensor OwnedState::part_of_state(const State& state, int chunk) const {
  return state.values.view(plan_.layout->chunk(chunk).state_offset / num_owners_, {part(chunk)});
}

std::int64_t OwnedState::part(int chunk) const {
  return plan_.layout->chunk(chunk).padded / num_owners_;
}

Tensor OwnedState::part_of_shards(const Tensor& shards, int chunk) const {
  return shards.view(plan_.layout->chunk(chunk).offset / num_owners_, {part(chunk)});
}

Tensor OwnedState::part_of_full(const Tensor& full, int chunk) const {
  return full.view(plan_.layout->chunk(chunk).offset + begin(chunk), {part(chunk)});
}

void OwnedState::initialize(int chunk, std::int64_t begin, const Tensor& values) const {
  const auto fill = [&](int parameter, std::int64_t first, std::int64_t count, std::int64_t at) {
    const ParameterSpec& spec = spec_of(*plan_.model, parameter);
    shardsim::initialize(spec, parts_of_rank_.of(spec), plan_.seed, first,
                         values.view(at, {count}));
  };
  runtime_.off_the_clock(
      [&] { plan_.layout->for_each_piece(chunk, begin, begin + values.numel(), fill); });
}

void OwnedState::initialize_master() {
  for (const Tensor& shards : {master_, outer_.start()}) {
    if (!shards.defined()) continue;
    for (int chunk = 0; chunk < static_cast<int>(plan_.layout->chunks().size()); ++chunk) {
      initialize(chunk, begin(chunk), part_of_shards(shards, chunk));
    }
  }
}

void OwnedState::average(int chunk, const Tensor& master) {
  const FlatChunk& flat = plan_.layout->chunk(chunk);
  OuterUpdate::Part part{.master = master, .start = {}, .momentum = {}};
  if (outer_.start().defined()) {
    part.start = part_of_shards(outer_.start(), chunk);
    part.momentum = part_of_shards(outer_.momentum(), chunk);
  }
  const std::int64_t first = begin(chunk);
  outer_.apply(part, num_owners_ == 1
                         ? flat.call_options(parts_of_rank_.tensor)
                         : CallOptions{.label = flat.label.c_str(),
                                       .padding = flat.padding(parts_of_rank_.tensor, first,
                                                               first + master.numel())});
}

void OwnedState::update(int chunk, const Tensor& weights, const Tensor& gradient,
                        double gradient_scale, std::int64_t step, bool casts) {
  const auto bring = [&](const Tensor& part) {
    return OnDevice(runtime_, plan_.offload_optimizer, MemoryCategory::optimizer, part);
  };
  const bool is_of_matrices = plan_.layout->chunk(chunk).matrices;
  // Taken from the members for their capacity, and given back empty; if something throws, what they
  // hold goes with it.
  std::vector<OnDevice> homes = std::move(homes_);
  std::vector<Tensor> state = std::move(parts_);
  for (const State& kept : state_) {
    if (kept.matrices != is_of_matrices) continue;
    state.push_back(homes.emplace_back(bring(part_of_state(kept, chunk))).tensor());
  }
  std::optional<OnDevice> master_home;
  if (master_.defined()) master_home.emplace(bring(part_of_shards(master_, chunk)));
  const Tensor master = master_home ? master_home->tensor() : weights;
  if (is_of_matrices) {
    matrices_.apply({.chunk = chunk,
                     .begin = begin(chunk),
                     .master = master,
                     .gradient = gradient,
                     .momentum = state.front()},
                    gradient_scale);
  } else {
    plan_.optimizer->step(runtime_, master, gradient, state, gradient_scale, step);
  }
  if (outer_.is_due(step)) average(chunk, master);
  if (master_home) {
    if (casts) convert(runtime_, weights, master);
    master_home->put_back();
  }
  for (OnDevice& home : homes) home.put_back();
  homes.clear();
  state.clear();
  homes_ = std::move(homes);
  parts_ = std::move(state);
}

void OwnedState::cast(int chunk, const Tensor& weights) const {
  convert(runtime_, weights, part_of_shards(master_, chunk));
}

void OwnedState::visit(const StateVisitor& visitor) const {
  const auto show = [&](std::string_view name, const Tensor& shards) {
    for (int chunk = 0; chunk < static_cast<int>(plan_.layout->chunks().size()); ++chunk) {
      visit_values(StateKind::optimizer_state, name, chunk, begin(chunk),
                   part_of_shards(shards, chunk), visitor);
    }
  };
  if (master_.defined()) show("master", master_);
  for (const State& kept : state_) {
    for (int chunk = 0; chunk < static_cast<int>(plan_.layout->chunks().size()); ++chunk) {
      if (plan_.layout->chunk(chunk).matrices != kept.matrices) continue;
      visit_values(StateKind::optimizer_state, kept.name, chunk, begin(chunk),
                   part_of_state(kept, chunk), visitor);
    }
  }
  if (!outer_.start().defined()) return;
  show("outer_start", outer_.start());
  show("outer_momentum", outer_.momentum());
}

void OwnedState::visit_values(StateKind kind, std::string_view state, int chunk, std::int64_t begin,
                              const Tensor& values, const StateVisitor& visitor) const {
  plan_.layout->for_each_piece(
      chunk, begin, begin + values.numel(),
      [&](int parameter, std::int64_t first, std::int64_t count, std::int64_t at) {
        visitor({kind, state, parameter, first, values.view(at, {count}), is_on_host(kind)});
      });
}

bool OwnedState::is_on_host(StateKind kind) const {
  return (kind == StateKind::gradient && plan_.offload_gradients) ||
         (kind == StateKind::parameter && plan_.offload_parameters) ||
         (kind == StateKind::optimizer_state && plan_.offload_optimizer);
}

}  // namespace shardsim

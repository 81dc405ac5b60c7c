#include "strategies/pipeline/stage_runner.hpp"

#include <string>
#include <utility>

#include "sim/kernel/error.hpp"

#include "strategies/sharding/expert_parallel.hpp"

namespace shardsim {

namespace {

void require_edges(const PipelineSchedule& schedule, const MeshShape& mesh) {
  if (!(mesh.pp == 1 || (schedule.placement == Placement::v) == mesh.v_placement)) {
    throw UsageError("E0785",
                     "the schedule " + schedule.name + " places stages " +
                         (mesh.v_placement ? "around" : "down and up") +
                         " the pipeline ranks, but the mesh has edges for the other placement",
                     "make the mesh of ParallelPlan::options().mesh");
  }
}

}  // namespace

StageRunner::StageRunner(const StagePlan& plan, Runtime& runtime, Mesh& mesh, GradientSync& sync,
                         const ModelParallel& parallel)
    : plan_(plan),
      runtime_(runtime),
      mesh_(mesh),
      sync_(sync),
      parallel_(parallel),
      rank_(mesh.pp()),
      takes_turns_(parallel.expert != nullptr && parallel.expert->size() > 1 &&
                   sync.keeps_weights() && plan.schedule->has_blocks()),
      cells_(plan.schedule->actions[index_of(mesh.pp())]),
      place_(index_of(plan.schedule->shape.num_chunks * plan.schedule->shape.num_microbatches), -1),
      backwards_left_(index_of(plan.schedule->shape.num_chunks)) {
  require_edges(*plan.schedule, mesh.shape());
  if (plan.offload.layers > 0) offload_.emplace(plan.offload, runtime, *plan.model);
  for (std::size_t cell = 0; cell < cells_.size(); ++cell) {
    if (is_compute(cells_[cell].kind)) last_compute_ = cell;
  }
}

void StageRunner::run_step(MicrobatchSource& source) {
  backwards_left_.assign(backwards_left_.size(), plan_.schedule->shape.num_microbatches);
  computes_ = false;
  quantized_weights_.begin_step();
  for (std::size_t cell = 0; cell < cells_.size(); ++cell) {
    source.action_begins(cells_[cell]);
    if (takes_turns_ && cells_[cell].overlaps_next) {
      run_block(cell++, source);
    } else {
      run(cell, source);
    }
    if (cell == last_compute_) source.compute_ends();
  }
  finish_scales(AmaxEnd::step);
  for (SendQueue& queue : sends_) {
    while (!queue.empty()) finish_oldest(queue);
  }
}

void StageRunner::run(std::size_t cell, MicrobatchSource& source) {
  const Action& action = cells_[cell];
  InFlight& flight = at(action.chunk, action.microbatch);
  switch (action.kind) {
    case ActionKind::recv_forward:
      return receive(flight.input, flight.receive_input, edge_for(action, Mesh::Edge::forward_in),
                     "activation");
    case ActionKind::recv_backward:
      return receive(flight.output_gradient, flight.receive_gradient,
                     edge_for(action, Mesh::Edge::backward_in), "activation gradient");
    case ActionKind::forward:
      return forward(cell, flight, source);
    case ActionKind::backward:
    case ActionKind::backward_input:
      return backward(action, flight, source);
    case ActionKind::backward_weight:
      return backward_weight(action, flight);
    case ActionKind::send_forward:
      return send(edge_for(action, Mesh::Edge::forward_out), "activation",
                  std::exchange(flight.output, Tensor()));
    case ActionKind::send_backward:
      send(edge_for(action, Mesh::Edge::backward_out), "activation gradient",
           std::exchange(flight.input_gradient, Tensor()));
      flight.gradient_passed = true;
      return release_if_done(action, flight);
  }
}

void StageRunner::run_block(std::size_t cell, MicrobatchSource& source) {
  const Action& other = cells_[cell + 1];
  InFlight& one = at(cells_[cell].chunk, cells_[cell].microbatch);
  InFlight& another = at(other.chunk, other.microbatch);
  const bool holds_back = plan_.delays_weight_gradients;
  parallel_.expert->turns().run(
      [&] { forward(cell, one, source); }, [&] { backward(other, another, source, holds_back); },
      [&](bool is_second) { source.action_begins(is_second ? other : cells_[cell]); },
      [&] {
        if (held_back_.empty()) return;
        plan_.model->run_weight_gradients(held_back_, context_of(other));
      });
}

// All that an action waits for, before it or the block that it begins computes.
void StageRunner::wait_for_block(std::size_t cell, MicrobatchSource& source) {
  const Action& action = cells_[cell];
  at(action.chunk, action.microbatch).receive_input.wait();
  if (action.overlaps_next) {
    const Action& other = cells_[cell + 1];
    at(other.chunk, other.microbatch).receive_gradient.wait();
  }
  if (!std::exchange(computes_, true)) source.compute_begins();
}

void StageRunner::forward(std::size_t cell, InFlight& flight, MicrobatchSource& source) {
  const Action& action = cells_[cell];
  const int stage = stage_of(action);
  const bool is_last = stage == plan_.schedule->num_stages() - 1;
  flight.batch = source.make_batch(action.microbatch, stage == 0 || is_last);
  wait_for_block(cell, source);
  const std::span<Saved> saved = saved_of(action.chunk, flight);
  Tensor output = forward_chunk(*plan_.model, action.chunk, context_of(action), sync_,
                                std::exchange(flight.input, Tensor()), flight.batch, saved);
  finish_scales(AmaxEnd::forward, action.chunk);
  if (is_last) {
    source.add_loss(output);
  } else if (InFlight* next = neighbour(action, +1)) {
    next->input = std::move(output);
  } else {
    flight.output = std::move(output);
  }
}

void StageRunner::backward(const Action& action, InFlight& flight, MicrobatchSource& source,
                           bool holds_back) {
  const int stage = stage_of(action);
  flight.receive_gradient.wait();
  if (stage == plan_.schedule->num_stages() - 1) source.set_scales(flight.batch);
  const bool is_split = action.kind == ActionKind::backward_input;
  if (!is_split) begin_weight_gradients(action.chunk);
  ModelContext here = context_of(action);
  if (is_split) here.later = &flight.later;
  if (holds_back) here.later = &held_back_;
  const std::span<Saved> saved = saved_of(action.chunk, flight);
  Tensor gradient =
      backward_chunk(*plan_.model, action.chunk, here, sync_,
                     std::exchange(flight.output_gradient, Tensor()), flight.batch, saved);
  if (holds_back) {
    finish_chunk(*plan_.model, action.chunk, context_of(action), sync_, held_back_);
  }
  finish_scales(AmaxEnd::backward, action.chunk);
  flight.weights_done = !is_split;
  flight.gradient_passed = stage == 0;
  if (stage > 0) {
    if (InFlight* previous = neighbour(action, -1)) {
      previous->output_gradient = std::move(gradient);
      flight.gradient_passed = true;
    } else {
      flight.input_gradient = std::move(gradient);
    }
  }
  release_if_done(action, flight);
}

void StageRunner::backward_weight(const Action& action, InFlight& flight) {
  begin_weight_gradients(action.chunk);
  finish_chunk(*plan_.model, action.chunk, context_of(action), sync_, flight.later);
  flight.weights_done = true;
  release_if_done(action, flight);
}

void StageRunner::begin_weight_gradients(int chunk) {
  sync_.begin_weight_gradients(chunk, --backwards_left_[index_of(chunk)] == 0);
}

void StageRunner::finish_scales(AmaxEnd end, int chunk) {
  if (parallel_.delayed_scales == nullptr) return;
  const auto seeing_others = [&](WeightKind kind) {
    const ReplicaGroups replicas = mesh_.replicas(kind);
    return plan_.replicas_apart ? replicas.shard : replicas.all;
  };
  // Where each rank has all experts, those with other tokens of the same samples are no replicas.
  Communicator* const slices = mesh_.shape().experts_apart() ? mesh_.etp_group() : mesh_.tp_group();
  parallel_.delayed_scales->finish(runtime_, end, chunk,
                                   {mesh_.tp_group(), seeing_others(WeightKind::dense)},
                                   {slices, seeing_others(WeightKind::expert)});
}

void StageRunner::receive(Tensor& message, Work& work, Mesh::Edge edge, const char* label) {
  message = runtime_.allocate(MemoryCategory::activations,
                              plan_.model->activation_shape(plan_.micro_batch_size),
                              plan_.model->dtype());
  work = mesh_.edge(edge)->recv(message, 0, {.label = label});
}

Mesh::Edge StageRunner::edge_for(const Action& action, Mesh::Edge down) const {
  const bool up = plan_.schedule->placement == Placement::v && action.chunk % 2 != 0;
  if (!up) return down;
  return static_cast<Mesh::Edge>(static_cast<int>(down) +
                                 static_cast<int>(Mesh::Edge::up_forward_out));
}

void StageRunner::send(Mesh::Edge edge, const char* label, const Tensor& message) {
  SendQueue& queue = sends_.at(static_cast<std::size_t>(edge));
  if (queue.size() == index_of(plan_.schedule->sends_in_flight)) finish_oldest(queue);
  queue.push({message, mesh_.edge(edge)->send(message, 1, {.label = label})});
}

void StageRunner::finish_oldest(SendQueue& queue) {
  queue.front().work.wait();
  queue.pop();
}

StageRunner::InFlight* StageRunner::neighbour(const Action& action, int distance) {
  const int stage = stage_of(action) + distance;
  if (plan_.schedule->rank_of(stage) != rank_) return nullptr;
  return &at(plan_.schedule->chunk_of(stage), action.microbatch);
}

StageRunner::InFlight& StageRunner::at(int chunk, int microbatch) {
  int& place = place_[index_of(chunk * plan_.schedule->shape.num_microbatches + microbatch)];
  if (place < 0) {
    if (free_.empty()) {
      free_.push_back(static_cast<int>(flights_.size()));
      flights_.emplace_back();
    }
    place = free_.back();
    free_.pop_back();
  }
  return flights_[index_of(place)];
}

std::span<Saved> StageRunner::saved_of(int chunk, InFlight& flight) const {
  const std::size_t modules = index_of(plan_.model->modules_of_chunk(chunk).count);
  if (flight.saved.size() < modules) flight.saved.resize(modules);
  return std::span(flight.saved).first(modules);
}

void StageRunner::release_if_done(const Action& action, InFlight& flight) {
  if (!flight.weights_done || !flight.gradient_passed) return;
  flight.batch = {};
  flight.weights_done = flight.gradient_passed = false;
  int& place =
      place_[index_of(action.chunk * plan_.schedule->shape.num_microbatches + action.microbatch)];
  free_.push_back(std::exchange(place, -1));
}

ModelContext StageRunner::context_of(const Action& action) const {
  const bool is_last = action.microbatch + 1 == plan_.schedule->shape.num_microbatches;
  return {.runtime = runtime_,
          .parameters = sync_,
          .parallel = parallel_,
          .is_last_microbatch = is_last,
          .is_run_each_time = takes_turns_,
          .apart_gradient_bytes = plan_.apart_gradient_bytes,
          .quantized_weights = sync_.keeps_weights() ? &quantized_weights_ : nullptr,
          .quantizes_at_use = !sync_.keeps_weights(),
          .offload = offload_ ? &*offload_ : nullptr};
}

int StageRunner::stage_of(const Action& action) const {
  return plan_.schedule->stage_of(rank_, action.chunk);
}

}  // namespace shardsim

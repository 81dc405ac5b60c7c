#include <cstdint>
#include <utility>
#include <vector>

#include "sim/kernel/hash.hpp"

#include "strategies/model/expert_layer.hpp"
#include "strategies/model/expert_rows.hpp"
#include "strategies/model/feed_forward_activation.hpp"
#include "strategies/model/weighed_activation.hpp"

// The experts' own products, forward and backward: each is one kernel for all experts of the rank.
namespace shardsim {

namespace {

// Gradients of runs of rows are known by the group of ranks whose rows meet here, counted through
// all samples, and by the expert.
std::vector<std::uint64_t> keys_of_runs(const Pass& pass, std::size_t num_runs,
                                        std::int64_t num_experts, std::int64_t tokens) {
  if (pass.low == nullptr || !row_of(pass.low->recipe).rounds_by_chance) return {};
  RoutingGroups groups = pass.batch->routing;
  const bool is_rank = groups.microbatch_samples == 0;
  std::int64_t place = 0;  // Among the ranks that have parts of the same samples.
  std::int64_t first_expert = 0;
  if (is_rank) {
    const TensorParallel* const tensor = pass.parallel.tensor;
    groups.context_parts = pass.part.parts;
    groups.token_shards = tensor == nullptr ? 1 : tensor->size();
    groups.microbatch_samples = tokens * groups.token_shards / pass.seq_len;
    place = pass.part.index * groups.token_shards + (tensor == nullptr ? 0 : tensor->rank());
  }
  if (const ExpertParallel* const expert = pass.parallel.expert; is_rank && expert != nullptr) {
    groups.expert_ranks = expert->size() * expert->slices();
    num_experts /= expert->size();
    first_expert = expert->group().rank * num_experts;
  }
  const std::int64_t microbatch = pass.batch->first_sample / groups.microbatch_samples;
  const std::int64_t first_rank = microbatch * groups.context_parts * groups.token_shards + place;
  const auto of_each = static_cast<std::int64_t>(num_runs) / num_experts;
  std::vector<std::uint64_t> keys;
  for (std::int64_t run = 0; run < static_cast<std::int64_t>(num_runs); ++run) {
    RollingHash hash;
    hash.add(static_cast<std::uint64_t>(first_rank / groups.expert_ranks + run % of_each));
    hash.add(static_cast<std::uint64_t>(first_expert + run / of_each));
    keys.push_back(hash.value());
  }
  return keys;
}

// Rows that were quantized together in forward.
std::vector<std::int64_t> runs_read(const Tensor& input) {
  std::vector<std::int64_t> rows;
  for (const QuantizedScales::Run& run : input.scales().runs) rows.push_back(run.rows);
  return rows;
}

}  // namespace

void ExpertLayer::add_experts(ParameterTable& table, const std::string& name) const {
  ParameterTable::ExpertCut cut = {moe_.expert_parallel, moe_.expert_tensor_parallel};
  const auto add = [&](const std::string& matrix, std::int64_t outputs, std::int64_t inputs) {
    const std::int64_t experts = moe_.num_experts;
    table.add_experts(name + matrix, {experts, outputs, inputs}, {Init::Kind::bell, kInitScale},
                      cut);
    if (!moe_.has_expert_bias) return;
    table.add_experts(name + matrix + ".bias", {experts, outputs}, {Init::Kind::zeros, 0.0}, cut);
  };
  const std::int64_t f = moe_.ffn_hidden_size;
  const std::int64_t width = moe_.row_size(hidden_size_);
  if (activation_.is_gated()) add(".gate", f, width);
  add(".up", f, width);
  cut.slice_axis = 2;
  add(".down", width, f);
}

Tensor ExpertLayer::apply_expert(const Pass& pass, int k, const Tensor& x,
                                 const Tensor& sizes) const {
  if (is_quantized(x)) {
    const LinearWeight own = quantized_weight(pass, k, Copies::rows);
    const Tensor bias = moe_.has_expert_bias ? pass.weight(k + 1) : Tensor();
    return low_forward(pass.runtime, own.product, x, own.made.rows, bias, own.weight.dtype());
  }
  const Tensor weight = pass.weight(k);
  const Tensor bias = moe_.has_expert_bias ? pass.weight(k + 1) : Tensor();
  return grouped_forward(pass.runtime, x, weight, bias, sizes);
}

Tensor ExpertLayer::backward_expert(const Pass& pass, int k, const Tensor& dy,
                                    const Tensor& sizes) const {
  if (is_quantized(dy)) return backward_input(pass, k, dy);
  return grouped_backward_input(pass.runtime, dy, pass.weight(k), sizes);
}

// Adds and reports the gradients of expert weight k, and of its bias before.
void ExpertLayer::finish_expert(const Pass& pass, int k, const Tensor& dy,
                                const LinearGradient& made, const Tensor& x,
                                const Tensor& sizes) const {
  if (moe_.has_expert_bias) {
    add_weight_gradient(pass, {.kind = WeightGradient::Kind::grouped_bias,
                               .parameter = pass.first + k + 1,
                               .dy = dy,
                               .sizes = sizes});
  }
  WeightGradient work{.kind = WeightGradient::Kind::grouped,
                      .parameter = pass.first + k,
                      .dy = made.columns,
                      .x = x,
                      .sizes = sizes};
  if (is_quantized(made.columns)) {
    work.low = {.recipe = pass.low->recipe, .n = made.outputs, .experts = sizes.numel()};
  }
  add_weight_gradient(pass, std::move(work));
}

// Makes what the last product reads, `again` of what was kept.
Tensor ExpertLayer::activation_of(const Pass& pass, std::span<Tensor> kept, bool again) const {
  const auto activate = again ? activation_forward : first_activation;
  Tensor y = activate(pass.runtime, activation_, kept[gate], kept[up]);
  if (weighs_activation_) {
    weigh_activation(pass.runtime, activation_, kept[gate], kept[up], kept[row_gates], y);
  }
  return y;
}

void ExpertLayer::activate(const Pass& pass, std::span<Tensor> kept) const {
  kept[activated] = activation_of(pass, kept, /*again=*/false);
  for (const Kept each : {gate, up}) narrow_to_stay(pass.runtime, activation_.store, kept[each]);
}

Tensor ExpertLayer::backward_experts(const Pass& pass, const Places& places, Tensor rows,
                                     std::span<Tensor> kept) const {
  Runtime& runtime = pass.runtime;
  const std::vector<std::int64_t> runs = runs_read(kept[input]);
  std::vector<std::uint64_t> keys;
  runtime.off_the_clock(
      [&] { keys = keys_of_runs(pass, runs.size(), moe_.num_experts, num_rows(kept[chosen])); });
  for (const Kept each : {gate, up}) {
    widen_to_read(runtime, activation_.store, rows.dtype(), kept[each]);
  }
  if (drops_activation_) {
    kept[activated] = activation_of(pass, kept, /*again=*/true);
    make_columns(pass, kept[activated],
                 {places.experts + place_of(w_down), Held::expert_channels, runs});
  }
  const auto backward = [&](int k, const LinearGradient& made) {
    return backward_expert(pass, places.experts + place_of(k), made.rows, kept[sizes]);
  };
  // Nothing stays of dy but what the input's gradient reads.
  const auto finish = [&](int k, Tensor& dy, const Tensor& x) {
    const Held held = k == w_down ? Held::apart : Held::expert_channels;
    LinearGradient made =
        linear_gradient(pass, dy, {places.experts + place_of(k), held, runs, keys});
    finish_expert(pass, places.experts + place_of(k), dy, made, x, kept[sizes]);
    made.columns = {};
    dy = {};
    return made;
  };
  Tensor d_up;
  {
    const LinearGradient made = finish(w_down, rows, kept[activated]);
    kept[activated] = {};
    d_up = backward(w_down, made);
  }
  if (weighs_activation_) {
    kept[row_gates] = weigh_activation_backward(runtime, activation_, kept[gate], kept[up],
                                                kept[row_gates], d_up);
  }
  Tensor d_gate = activation_backward(runtime, activation_, kept[gate], kept[up], d_up);
  kept[gate] = {};
  kept[up] = {};
  LinearGradient of_up = finish(w_up, d_up, kept[input]);
  LinearGradient of_gate;
  const bool has_gate = d_gate.defined();
  if (has_gate) of_gate = finish(w_gate, d_gate, kept[input]);
  kept[input] = {};
  if (!has_gate) return backward(w_up, of_up);
  Tensor dx = backward(w_gate, of_gate);
  of_gate = {};
  add_in_place(runtime, backward(w_up, of_up), dx);
  return dx;
}

}  // namespace shardsim

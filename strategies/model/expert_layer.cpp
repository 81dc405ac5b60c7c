#include "strategies/model/expert_layer.hpp"

#include <algorithm>
#include <utility>

#include "sim/kernel/error.hpp"

#include "strategies/model/dispatch_payload.hpp"
#include "strategies/model/expert_rows.hpp"
#include "strategies/model/feed_forward_activation.hpp"
#include "strategies/model/router_bias.hpp"

namespace shardsim {

namespace {

constexpr CallOptions kTokens = {.label = "expert tokens"};
constexpr CallOptions kOutputs = {.label = "expert outputs"};
constexpr CallOptions kOutputGradients = {.label = "expert output gradients"};
constexpr CallOptions kTokenGradients = {.label = "expert token gradients"};
constexpr CallOptions kChoice = {.label = "expert choice", .traffic = TrafficClass::scalar};

bool is_shared(const Pass& pass) {
  return pass.parallel.expert != nullptr && pass.parallel.expert->size() > 1;
}

const NodeDispatch* by_node(const Pass& pass) {
  return pass.parallel.expert == nullptr ? nullptr : pass.parallel.expert->by_node();
}

bool is_sliced(const Pass& pass) {
  return pass.parallel.expert != nullptr && pass.parallel.expert->slices() > 1;
}

Tensor taken(const Pass& pass, PendingTensor rows) {
  return is_shared(pass) ? pass.parallel.expert->take_rows(std::move(rows)) : rows.take();
}

// Rows that have arrived, of all slices' ranks and expert by expert.
Tensor rows_to_read(const Pass& pass, Tensor arrived, const ExpertCounts& counts, bool are_equal,
                    const CallOptions& options) {
  if (!is_shared(pass) && !is_sliced(pass)) return arrived;
  const ExpertParallel& own = *pass.parallel.expert;
  if (is_sliced(pass)) {
    arrived =
        pass.parallel.expert->gather_slices(pass.runtime, arrived, counts, are_equal, options);
  }
  return regroup_rows(pass.runtime, arrived, counts.read(), std::int64_t{own.size()} * own.slices(),
                      true);
}

// Rows of this rank's tokens, on their way to the ranks of their experts.
PendingTensor post_rows(const Pass& pass, Tensor rows, const ExpertCounts& counts,
                        const CallOptions& options) {
  if (!is_shared(pass)) return PendingTensor(std::move(rows));
  return pass.parallel.expert->dispatch(pass.runtime, std::move(rows), counts, options);
}

// Results for this rank's rows, as they arrived.
Tensor rows_to_return(const Pass& pass, Tensor made, const ExpertCounts& counts, bool are_equal,
                      const CallOptions& options) {
  if (!is_shared(pass) && !is_sliced(pass)) return made;
  const ExpertParallel& own = *pass.parallel.expert;
  made = regroup_rows(pass.runtime, made, counts.read(), std::int64_t{own.size()} * own.slices(),
                      false);
  if (!is_sliced(pass)) return made;
  return pass.parallel.expert->reduce_slices(pass.runtime, made, counts, are_equal, options);
}

// The same, back where the tokens are.
Tensor brought_back(const Pass& pass, Tensor made, const ExpertCounts& counts, bool are_equal,
                    const CallOptions& options) {
  made = rows_to_return(pass, std::move(made), counts, are_equal, options);
  if (!is_shared(pass)) return made;
  ExpertParallel& own = *pass.parallel.expert;
  return own.take_rows(own.combine(pass.runtime, std::move(made), counts, options));
}

ExpertGroup group_of(const Pass& pass) {
  return pass.parallel.expert == nullptr ? ExpertGroup{} : pass.parallel.expert->group();
}

// Rows of each of this rank's experts.
std::vector<std::int64_t> rows_here(const Pass& pass, const ExpertCounts& counts,
                                    std::int64_t num_experts) {
  const ExpertGroup group = group_of(pass);
  const bool is_alone = group.size * group.slices == 1;
  const std::vector<std::int64_t>& from_all = is_alone ? counts.sent : counts.read();
  std::vector<std::int64_t> rows(to_size(num_experts), 0);
  for (std::size_t i = 0; i < from_all.size(); ++i) rows[i % rows.size()] += from_all[i];
  return rows;
}

}  // namespace

ExpertLayer::ExpertLayer(const ModelOptions& options)
    : moe_(options.moe),
      activation_(options.activation),
      hidden_size_(options.hidden_size),
      seq_len_(options.seq_len),
      captures_router_(options.graphs.has(GraphModule::moe_router)),
      drops_activation_(options.recomputes(RecomputeModule::moe_act) &&
                        !options.recomputes(RecomputeModule::moe)),
      weighs_activation_(!options.memory.keeps_expert_outputs && !moe_.router.weighs_input &&
                         !moe_.has_expert_bias),
      planner_(options.moe, options.seq_len) {
  int layers = 0;
  for (int block = 0; block < options.num_blocks(); ++block) {
    layer_of_block_.push_back(options.has_experts(block) ? layers++ : -1);
  }
}

ExpertLayer::Dispatched ExpertLayer::dispatch(const Pass& pass, const Places& places,
                                              const Tensor& x, std::span<Tensor> kept) const {
  const std::int64_t rows = num_rows(x);
  Dispatched dispatched;
  dispatched.dtype = x.dtype();
  ExpertParallel::Routed on_its_way;
  on_its_way.counts = count_tokens(pass, kept[chosen]);
  if (moe_.balances_load()) {
    const RoutingGroups& groups = pass.batch->routing;
    const bool is_many = groups.microbatch_samples > 0;
    const std::int64_t of_batch =
        is_many ? rows / (groups.balanced_samples * seq_len_) : std::int64_t{1};
    kept[loads] =
        count_chosen(pass.runtime, kept[chosen], of_batch, moe_.num_experts, DType::int64);
    if (pass.parallel.expert != nullptr) pass.parallel.expert->sum_loads(kept[loads], on_its_way);
  }
  const Counts demand = on_its_way.counts;
  if (pass.parallel.expert != nullptr) {
    pass.parallel.expert->keep(pass.batch->first_sample, pass.block, std::move(on_its_way));
  }
  const ExpertOrder rows_at_experts = order_of(pass, rows);
  dispatched.counts =
      moe_.drops_tokens() ? planner_.equal(rows_at_experts.capacity_of_all()) : demand;
  if (const NodeDispatch* nodes = by_node(pass)) {
    return send_by_node(pass, *nodes, places, x, std::move(dispatched), kept);
  }
  kept[order] = rows_at_experts.order(pass.runtime, kept[chosen]);
  kept[sizes] = sizes_of(pass, *dispatched.counts);
  Tensor sent = permute_tokens(
      pass.runtime, as_if_sent(pass.runtime, moe_.dispatch_recipe, rows_of(pass, places, x, kept)),
      kept[order], moe_.experts_per_token, moe_.router.weighs_input ? kept[gates] : Tensor());
  dispatched.rows = post_rows(pass, std::move(sent), *dispatched.counts, kTokens);
  if (weighs_activation_) {
    const Tensor pairs = kept[gates].view(0, {kept[gates].numel(), 1});
    dispatched.gates = post_rows(pass, permute_tokens(pass.runtime, pairs, kept[order], 1),
                                 *dispatched.counts, kChoice);
  }
  return dispatched;
}

Tensor ExpertLayer::finish(const Pass& pass, const Places& places, Dispatched dispatched,
                           const Shape& shape, std::span<Tensor> kept) const {
  const Counts held = dispatched.counts;
  const ExpertCounts& counts = *held;
  const NodeDispatch* nodes = by_node(pass);
  if (nodes != nullptr) {
    kept[input] = arrive_by_node(pass, *nodes, std::move(dispatched), kept);
  } else {
    kept[input] = rows_to_read(pass, taken(pass, std::move(dispatched.rows)), counts,
                               moe_.drops_tokens(), kTokens);
    if (weighs_activation_) {
      kept[row_gates] =
          rows_to_read(pass, dispatched.gates.take(), counts, moe_.drops_tokens(), kChoice);
    }
  }
  const std::vector<std::int64_t> runs = runs_of(pass, counts, kept[chosen]);
  const auto apply = [&](int k, const Tensor& x) {
    return apply_expert(pass, places.experts + place_of(k), x, kept[sizes]);
  };
  {
    const Tensor read = linear_input(pass, kept[input], {places.experts, Held::apart, runs});
    if (activation_.is_gated()) kept[gate] = apply(w_gate, read);
    kept[up] = apply(w_up, read);
  }
  activate(pass, kept);
  Tensor made =
      apply(w_down, linear_input(pass, kept[activated],
                                 {places.experts + place_of(w_down), Held::expert_channels, runs}));
  if (drops_activation_) kept[activated] = {};
  round_shared_sum(pass.runtime, made, SumOver::expert_slices);
  const Shape combined = with_last(shape, moe_.row_size(hidden_size_));
  Tensor y = nodes != nullptr ? leave_by_node(pass, *nodes, std::move(made), counts, combined, kept)
                              : leave(pass, std::move(made), counts, combined, kept);
  round_shared_sum(pass.runtime, y, SumOver::expert_ranks);
  if (!moe_.has_latent()) return y;
  kept[latent_output] = std::move(y);
  return apply_linear(pass, latent_up(places), kept[latent_output]);  // (..., h)
}

Tensor ExpertLayer::leave(const Pass& pass, Tensor made, const ExpertCounts& counts,
                          const Shape& shape, std::span<Tensor> kept) const {
  Runtime& runtime = pass.runtime;
  made = brought_back(pass, std::move(made), counts, moe_.drops_tokens(), kOutputs);
  if (moe_.router.weighs_input || weighs_activation_) {
    return sum_rows(runtime, made, kept[order], moe_.experts_per_token, shape);
  }
  kept[output] = std::move(made);
  return combine_rows(runtime, kept[output], kept[order], kept[gates], shape);
}

Tensor ExpertLayer::backward(const Pass& pass, const Places& places, const Tensor& dy,
                             const Tensor& x, std::span<Tensor> kept) const {
  Runtime& runtime = pass.runtime;
  const std::int64_t rows = num_rows(x);
  Counts counts;
  if (pass.parallel.expert != nullptr) {
    counts = pass.parallel.expert->take(pass.batch->first_sample, pass.block).counts;
    tally(pass, *counts, rows);
    if (moe_.drops_tokens()) counts = planner_.equal(order_of(pass, rows).capacity_of_all());
  }
  if (pass.parallel.router_biases != nullptr) {
    pass.parallel.router_biases->add_loads(runtime, pass.block, kept[chosen]);
  }
  Tensor d = backward_latent_up(pass, places, dy, kept);
  const NodeDispatch* nodes = by_node(pass);
  Returned returned =
      nodes != nullptr
          ? backward_by_node(pass, *nodes, places, std::exchange(d, Tensor()), *counts, kept)
          : backward_rows(pass, places, std::exchange(d, Tensor()), counts, x, kept);
  if (moe_.has_latent()) {
    returned.dx = backward_latent_down(pass, places, returned.dx, x, kept);
  }
  return backward_router(pass, places, returned.gates, x, std::move(returned.dx), kept);
}

ExpertLayer::Returned ExpertLayer::backward_rows(const Pass& pass, const Places& places, Tensor d,
                                                 const Counts& counts, const Tensor& x,
                                                 std::span<Tensor> kept) const {
  Runtime& runtime = pass.runtime;
  d = as_if_sent(runtime, moe_.dispatch_recipe, std::move(d));
  Tensor gate_gradient;
  if (moe_.router.weighs_input || weighs_activation_) {
    d = sum_rows_backward(runtime, d, kept[order], moe_.experts_per_token);
  } else {
    CombineGradient gradient =
        combine_rows_backward(runtime, d, kept[output], kept[order], kept[gates]);
    d = std::move(gradient.rows);
    gate_gradient = std::move(gradient.gates);
  }
  kept[output] = {};
  if (counts != nullptr) {
    d = taken(pass, post_rows(pass, std::exchange(d, Tensor()), *counts, kOutputGradients));
    d = rows_to_read(pass, std::exchange(d, Tensor()), *counts, moe_.drops_tokens(),
                     kOutputGradients);
  }
  d = backward_experts(pass, places, std::exchange(d, Tensor()), kept);
  round_shared_sum(runtime, d, SumOver::expert_slices);
  if (counts != nullptr) {
    d = brought_back(pass, std::exchange(d, Tensor()), *counts, moe_.drops_tokens(),
                     kTokenGradients);
  }
  if (weighs_activation_) {
    Tensor slopes = std::exchange(kept[row_gates], Tensor());
    if (counts != nullptr) {
      slopes = brought_back(pass, std::move(slopes), *counts, moe_.drops_tokens(), kChoice);
    }
    const Shape pairs = {kept[gates].numel(), 1};
    gate_gradient = permute_tokens_backward(runtime, slopes, kept[order], 1, pairs)
                        .view(0, kept[gates].shape());
  }
  Tensor dx = permute_tokens_backward(runtime, d, kept[order], moe_.experts_per_token,
                                      with_last(x.shape(), moe_.row_size(hidden_size_)),
                                      moe_.router.weighs_input ? kept[gates] : Tensor());
  round_shared_sum(runtime, dx, SumOver::expert_ranks);
  if (moe_.router.weighs_input) {
    const Tensor& read = moe_.has_latent() ? kept[latent_input] : x;
    gate_gradient = permute_tokens_backward_gates(runtime, d, read, kept[order], kept[gates]);
  }
  return {.dx = std::move(dx), .gates = std::move(gate_gradient)};
}

ExpertLayer::Counts ExpertLayer::count_tokens(const Pass& pass, const Tensor& of) const {
  const std::int64_t rows = num_rows(of);
  Counts planned = planner_.counts(layer_of(pass), group_of(pass), rows);
  if (const NodeDispatch* nodes = by_node(pass)) {
    return count_tokens_by_node(pass, *nodes, of, planned);
  }
  const bool exchanges = (is_shared(pass) || is_sliced(pass)) && !moe_.drops_tokens();
  const Tensor sent = count_chosen(pass.runtime, of, 1, moe_.num_experts, DType::int32);
  Tensor received;
  if (exchanges) {
    received = is_shared(pass) ? pass.parallel.expert->exchange_counts(pass.runtime, sent) : sent;
  }
  Tensor gathered;
  if (exchanges && is_sliced(pass)) {
    gathered = pass.parallel.expert->gather_counts(pass.runtime, received);
  }
  if (!planner_.declares()) return decide_tokens(pass, {sent, received, gathered}, planned);
  pass.runtime.off_the_clock([&] {
    for (std::int64_t i = 0; i < moe_.num_experts; ++i) {
      const auto expert = to_size(i);
      const bool same =
          sent.get(i) == static_cast<double>(planned->sent[expert]) &&
          (!exchanges || received.get(i) == static_cast<double>(planned->received[expert]));
      if (same) continue;
      throw Error(ExitCode::internal, "E7014",
                  "declared routing sends tokens otherwise than it is planned for expert " +
                      std::to_string(i));
    }
  });
  return planned;
}

ExpertLayer::Counts ExpertLayer::decide_tokens(const Pass& pass, const Counted& counted,
                                               const Counts& planned) const {
  const auto actual = [&] {
    std::vector<std::int64_t> numbers;
    for (const Tensor& counts : {counted.sent, counted.received, counted.gathered}) {
      for (std::int64_t i = 0; counts.defined() && i < counts.numel(); ++i) {
        numbers.push_back(static_cast<std::int64_t>(counts.get(i)));
      }
    }
    return numbers;
  };
  ExpertCounts form = *planned;
  if (!counted.received.defined()) form.received.clear();
  if (!counted.gathered.defined()) form.gathered.clear();
  const auto decided = pass.runtime.decide_numbers(kExpertTokens, actual);
  if (!decided) return planned;
  return std::make_shared<ExpertCounts>(with_numbers(std::move(form), *decided));
}

Tensor ExpertLayer::sizes_of(const Pass& pass, const ExpertCounts& counts) const {
  const std::int64_t here = moe_.num_experts / group_of(pass).size;
  Tensor sizes = new_activation(pass.runtime, Shape{here}, DType::int32);
  pass.runtime.off_the_clock([&] {
    const std::vector<std::int64_t> rows = rows_here(pass, counts, here);
    for (std::int64_t i = 0; i < here; ++i) sizes.set(i, static_cast<double>(rows[to_size(i)]));
  });
  return sizes;
}

std::vector<std::int64_t> ExpertLayer::runs_of(const Pass& pass, const ExpertCounts& counts,
                                               const Tensor& of) const {
  if (pass.low == nullptr) return {};
  if (pass.batch->routing.microbatch_samples == 0) {
    return rows_here(pass, counts, moe_.num_experts / group_of(pass).size);
  }
  return order_of(pass, num_rows(of)).runs(of);
}

ExpertOrder ExpertLayer::order_of(const Pass& pass, std::int64_t tokens) const {
  return {moe_, pass.batch->routing, tokens, seq_len_, moe_.drops_tokens() || pass.low != nullptr};
}

}  // namespace shardsim

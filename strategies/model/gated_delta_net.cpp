#include "strategies/model/gated_delta_net.hpp"

#include <utility>

#include "strategies/sharding/context_parallel.hpp"
#include "strategies/sharding/position_exchange.hpp"

namespace shardsim {

struct GatedDeltaNet::Heads {
  Heads(const ModelOptions& options, const Pass& pass)
      : context(pass.parallel.context),
        ranks(context == nullptr ? 1 : context->part().parts),
        rank(context == nullptr ? 0 : context->part().index),
        seq_len(pass.seq_len * ranks),
        keys(options.delta_net.key_heads / options.tensor_parallel),
        values(options.delta_net.value_heads / options.tensor_parallel),
        k_row(keys * options.delta_net.key_size),
        v_row(values * options.delta_net.value_size),
        of_values({{values, ranks}}, rank, ranks),
        of_convolution({{k_row, ranks}, {k_row, ranks}, {v_row, ranks}}, rank, ranks),
        of_projection({{k_row, ranks},
                       {k_row, ranks},
                       {v_row, ranks},
                       {v_row, ranks},
                       {values, ranks},
                       {values, ranks}},
                      rank, ranks),
        of_output({{v_row, ranks}}, rank, ranks) {}

  [[nodiscard]] bool are_exchanged() const { return ranks > 1; }
  // Where columns of the rank's projection begin.
  [[nodiscard]] std::int64_t gate() const { return (2 * k_row + v_row) / ranks; }
  [[nodiscard]] Columns convolved(const Tensor& in) const { return {in, 0, gate()}; }
  [[nodiscard]] Columns gate_of(const Tensor& in) const { return {in, gate(), v_row / ranks}; }
  [[nodiscard]] PositionExchange exchange(const Pass& pass, const HeadSlices& of) const {
    return {pass.runtime, context->group(), seq_len, of};
  }
  [[nodiscard]] DeltaRuleShape shape(const DeltaNetOptions& sizes, const Tensor& in) const {
    return {.batch = num_rows(in) / seq_len,
            .seq_len = seq_len,
            .key_heads = keys / ranks,
            .value_heads = values / ranks,
            .key_size = sizes.key_size,
            .value_size = sizes.value_size};
  }

  const ContextParallel* context;
  int ranks;  // That share a sample's positions.
  int rank;
  std::int64_t seq_len;
  std::int64_t keys;  // As all sizes: of a tensor-parallel rank.
  std::int64_t values;
  std::int64_t k_row;
  std::int64_t v_row;
  HeadSlices of_values;
  HeadSlices of_convolution;
  HeadSlices of_projection;
  HeadSlices of_output;
};

GatedDeltaNet::GatedDeltaNet(const ModelOptions& options)
    : options_(options), sizes_(options.delta_net) {}

void GatedDeltaNet::add_parameters(ParameterTable& table, const std::string& name,
                                   int /*block*/) const {
  const std::int64_t h = options_.hidden_size;
  const std::int64_t k = sizes_.key_heads * sizes_.key_size;
  const std::int64_t v = sizes_.value_heads * sizes_.value_size;
  const std::int64_t n = sizes_.value_heads;
  const int t = options_.tensor_parallel;
  const Init init{Init::Kind::bell, kInitScale};
  const Init ones{Init::Kind::ones, 0.0};
  const std::string full = name + ".delta_net";
  table.add_split(full + ".w_in", {2 * k + 2 * v + 2 * n, h}, init, 0, t, {k, k, v, v, n, n});
  const int filters = table.add_split(full + ".convolution", {2 * k + v, sizes_.conv_kernel},
                                      convolution_init(sizes_.conv_kernel), 0, t, {k, k, v});
  table.leave_out_of_muon(filters);
  table.never_quantize(filters);
  table.add_split(full + ".a_log", {n}, {Init::Kind::bell, 1.0}, 0, t);
  table.add_split(full + ".dt_bias", {n}, ones, 0, t);
  table.add_for_heads(full + ".norm", {sizes_.value_size}, ones, t);
  table.add_split(full + ".wo", {h, v}, init, 1, t);
}

Tensor GatedDeltaNet::convolve(const Heads& heads, const Pass& pass, const Tensor& in) const {
  const Tensor weight = heads.of_convolution.of(pass.runtime, pass.weight(convolution));
  return causal_convolution_forward(pass.runtime, {heads.seq_len, weight, {}}, heads.convolved(in));
}

DeltaRuleInput GatedDeltaNet::rule_input(const Heads& heads, const Tensor& in,
                                         const Tensor& made) const {
  const std::int64_t k = heads.k_row / heads.ranks;
  const std::int64_t v = heads.v_row / heads.ranks;
  const std::int64_t n = heads.values / heads.ranks;
  const std::int64_t behind_gate = heads.gate() + v;
  return {.q = {made, 0, k},
          .k = {made, k, k},
          .v = {made, 2 * k, v},
          .beta = {in, behind_gate, n},
          .a = {in, behind_gate + n, n},
          .a_log = {},
          .dt_bias = {}};
}

void GatedDeltaNet::forward_rule(const Heads& heads, const Pass& pass,
                                 std::span<Tensor> kept) const {
  DeltaRuleInput input = rule_input(heads, kept[projected], kept[convolved]);
  input.a_log = heads.of_values.of(pass.runtime, pass.weight(a_log));
  input.dt_bias = heads.of_values.of(pass.runtime, pass.weight(dt_bias));
  DeltaRuleOutput out =
      delta_rule_forward(pass.runtime, heads.shape(sizes_, kept[projected]), input);
  kept[o] = std::move(out.o);
  kept[sums] = std::move(out.sums);
  kept[inverse] = std::move(out.inverse);
}

Tensor GatedDeltaNet::forward_norm(const Heads& heads, const Pass& pass,
                                   std::span<Tensor> kept) const {
  const GatedNorm gated{pass.weight(norm), sizes_.value_size, options_.norm_epsilon};
  GatedNormOutput out =
      gated_norm_forward(pass.runtime, gated, kept[o], heads.gate_of(kept[projected]));
  kept[statistics] = std::move(out.statistics);
  return std::move(out.y);
}

Tensor GatedDeltaNet::forward_inside(const Pass& pass, Tensor entered, BranchInput& x,
                                     std::span<Tensor> kept) const {
  const Heads heads(options_, pass);
  kept[projected] = apply_linear(pass, w_in, entered);  // (b, s / c, 2 qk + 2 v + 2 n_v)
  entered = {};
  x.drop_recomputed();
  if (heads.are_exchanged()) {
    kept[projected] = heads.exchange(pass, heads.of_projection)
                          .to_heads(all_columns(kept[projected]), "delta_net input");
  }
  kept[convolved] = convolve(heads, pass, kept[projected]);
  forward_rule(heads, pass, kept);
  if (options_.recomputes(RecomputeModule::activation)) kept[convolved] = {};
  kept[y] = forward_norm(heads, pass, kept);
  if (heads.are_exchanged()) {
    const Shape tokens{kept[y].shape()[0], pass.seq_len, heads.v_row};
    Tensor own = new_activation(pass.runtime, tokens, kept[y].dtype());
    heads.exchange(pass, heads.of_output)
        .to_positions(kept[y], all_columns(own), "delta_net output");
    kept[y] = std::move(own);
  }
  return kept[y];
}

// An output that came by messages stays.
bool GatedDeltaNet::recomputes_row_input() const {
  return options_.context_parallel == 1 && options_.recomputes(RecomputeModule::activation);
}

void GatedDeltaNet::drop_row_input(std::span<Tensor> kept, bool is_quantized) const {
  if (recomputes_row_input() || is_quantized) kept[y] = {};
}

Tensor GatedDeltaNet::row_input(const Pass& pass, std::span<Tensor> kept) const {
  if (!kept[y].defined()) return forward_norm(Heads(options_, pass), pass, kept);
  return std::move(kept[y]);
}

Tensor GatedDeltaNet::backward_norm(const Heads& heads, const Pass& pass, const Tensor& d,
                                    std::span<Tensor> kept, const Tensor& d_in) const {
  Tensor slope;
  Tensor d_o;
  {
    const GatedNorm gated{pass.weight(norm), sizes_.value_size, options_.norm_epsilon};
    slope = gradient_of_sum(pass, norm, gated.weight);
    d_o = gated_norm_backward(pass.runtime, gated, kept[o], heads.gate_of(kept[projected]),
                              kept[statistics], d, heads.gate_of(d_in), slope);
  }
  kept[statistics] = {};
  finish_sum(pass, norm, std::move(slope));
  return d_o;
}

Tensor GatedDeltaNet::backward_rule(const Heads& heads, const Pass& pass, const Tensor& d,
                                    std::span<Tensor> kept, const Tensor& d_in) const {
  if (!kept[convolved].defined()) kept[convolved] = convolve(heads, pass, kept[projected]);
  Tensor d_convolved =
      new_activation(pass.runtime, kept[convolved].shape(), kept[convolved].dtype());
  HeadParameter decay(pass, a_log, heads.of_values);
  HeadParameter bias(pass, dt_bias, heads.of_values);
  {
    DeltaRuleInput input = rule_input(heads, kept[projected], kept[convolved]);
    input.a_log = decay.weight();
    input.dt_bias = bias.weight();
    DeltaRuleInput gradient = rule_input(heads, d_in, d_convolved);
    gradient.a_log = decay.gradient();
    gradient.dt_bias = bias.gradient();
    delta_rule_backward(pass.runtime, heads.shape(sizes_, kept[projected]), input,
                        {kept[o], kept[sums], kept[inverse]}, d, gradient);
  }
  for (const Kept used : {convolved, sums, inverse, o}) kept[used] = {};
  bias.finish();
  decay.finish();
  return d_convolved;
}

void GatedDeltaNet::backward_convolution(const Heads& heads, const Pass& pass, const Tensor& d,
                                         std::span<Tensor> kept, const Tensor& d_in) const {
  HeadParameter weight(pass, convolution, heads.of_convolution);
  causal_convolution_backward(pass.runtime, {heads.seq_len, weight.weight(), {}},
                              heads.convolved(kept[projected]), d,
                              {heads.convolved(d_in), weight.gradient(), {}});
  kept[projected] = {};
  weight.finish();
}

ColumnLinears GatedDeltaNet::backward_inside(const Pass& pass, Tensor d,
                                             std::span<Tensor> kept) const {
  const Heads heads(options_, pass);
  if (heads.are_exchanged()) {
    d = heads.exchange(pass, heads.of_output).to_heads(all_columns(d), "delta_net output gradient");
  }
  const Shape shape = kept[projected].shape();
  Tensor d_in = new_activation(pass.runtime, shape, d.dtype());
  d = backward_norm(heads, pass, d, kept, d_in);
  d = backward_rule(heads, pass, d, kept, d_in);
  backward_convolution(heads, pass, d, kept, d_in);
  d = {};
  if (heads.are_exchanged()) {
    const Shape tokens{shape[0], pass.seq_len, heads.of_projection.whole()};
    Tensor own = new_activation(pass.runtime, tokens, d_in.dtype());
    heads.exchange(pass, heads.of_projection)
        .to_positions(d_in, all_columns(own), "delta_net input gradient");
    d_in = std::move(own);
  }
  ColumnLinears readers;
  readers.add({.k = w_in, .dy = std::move(d_in)});
  return readers;
}

std::int64_t GatedDeltaNet::forward_flops_per_sample(int /*block*/) const {
  return checked_product(
      {8, options_.seq_len, sizes_.value_heads, sizes_.value_size, sizes_.value_size});
}

}  // namespace shardsim

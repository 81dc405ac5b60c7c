#include "strategies/model/mamba_mixer.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "strategies/sharding/context_parallel.hpp"
#include "strategies/sharding/position_exchange.hpp"

namespace shardsim {

struct MambaMixer::Heads {
  Heads(const ModelOptions& options, const Pass& pass)
      : context(pass.parallel.context),
        ranks(context == nullptr ? 1 : context->part().parts),
        rank(context == nullptr ? 0 : context->part().index),
        seq_len(pass.seq_len * ranks),
        count(options.mamba.num_heads / options.tensor_parallel),
        groups(options.mamba.num_groups / options.tensor_parallel),
        group_parts(static_cast<int>(std::min<std::int64_t>(groups, ranks))),
        inner(count * options.mamba.head_size),
        b_row(groups * options.mamba.state_size),
        of_heads({{count, ranks}}, rank, ranks),
        of_convolution({{inner, ranks}, {b_row, group_parts}, {b_row, group_parts}}, rank, ranks),
        of_projection({{inner, ranks}, {b_row, group_parts}, {b_row, group_parts}, {count, ranks}},
                      rank, ranks),
        of_output({{inner, ranks}}, rank, ranks) {}

  [[nodiscard]] bool are_exchanged() const { return ranks > 1; }
  // Where x begins in the projection that is kept: behind z, which stays where it is.
  [[nodiscard]] std::int64_t first() const { return are_exchanged() ? 0 : inner; }
  [[nodiscard]] Columns convolved(const Tensor& in) const {
    return {in, first(), of_convolution.count()};
  }
  // The columns of a whole projection that are exchanged.
  [[nodiscard]] Columns behind_gate(const Tensor& in) const {
    return {in, inner, of_projection.whole()};
  }
  [[nodiscard]] PositionExchange exchange(const Pass& pass, const HeadSlices& of) const {
    return {pass.runtime, context->group(), seq_len, of};
  }
  [[nodiscard]] StateSpaceShape shape(const MambaOptions& sizes, const Tensor& in) const {
    return {.batch = num_rows(in) / seq_len,
            .seq_len = seq_len,
            .num_heads = count / ranks,
            .head_size = sizes.head_size,
            .num_groups = groups / group_parts,
            .state_size = sizes.state_size,
            .chunk = sizes.chunk_size};
  }

  const ContextParallel* context;
  int ranks;  // That share a sample's positions.
  int rank;
  std::int64_t seq_len;
  std::int64_t count;  // Heads of a tensor-parallel rank, as all sizes.
  std::int64_t groups;
  int group_parts;
  std::int64_t inner;  // D
  std::int64_t b_row;  // G N
  HeadSlices of_heads;
  HeadSlices of_convolution;
  HeadSlices of_projection;
  HeadSlices of_output;
};

MambaMixer::MambaMixer(const ModelOptions& options) : options_(options), sizes_(options.mamba) {}

void MambaMixer::add_parameters(ParameterTable& table, const std::string& name,
                                int /*block*/) const {
  const std::int64_t h = options_.hidden_size;
  const std::int64_t n = sizes_.num_heads;
  const std::int64_t inner = n * sizes_.head_size;
  const std::int64_t b = sizes_.num_groups * sizes_.state_size;
  const int t = options_.tensor_parallel;
  const Init init{Init::Kind::bell, kInitScale};
  const Init ones{Init::Kind::ones, 0.0};
  const Init convolution_start = convolution_init(sizes_.conv_kernel);
  const std::string full = name + ".mamba";
  table.leave_out_of_muon(table.add_split(full + ".w_in", {2 * inner + 2 * b + n, h}, init, 0, t,
                                          {inner, inner, b, b, n}));
  const int convolution =
      table.add_split(full + ".convolution", {inner + 2 * b, sizes_.conv_kernel}, convolution_start,
                      0, t, {inner, b, b});
  table.leave_out_of_muon(convolution);
  table.never_quantize(convolution);
  table.add_split(full + ".convolution_bias", {inner + 2 * b}, convolution_start, 0, t,
                  {inner, b, b});
  table.add_split(full + ".a_log", {n}, {Init::Kind::bell, 1.0}, 0, t);
  table.add_split(full + ".dt_bias", {n}, ones, 0, t);
  table.add_split(full + ".d_skip", {n}, ones, 0, t);
  if (sizes_.has_norm) table.add_split(full + ".norm", {inner}, ones, 0, t);
  table.add_split(full + ".wo", {h, inner}, init, 1, t);
}

void MambaMixer::scale_parts(const Heads& heads, const Pass& pass, const Tensor& whole) const {
  if (!sizes_.scales_projection()) return;
  const std::array<ScaledColumns, 5> parts = {{{heads.inner, sizes_.z_scale},
                                               {heads.inner, sizes_.x_scale},
                                               {heads.b_row, sizes_.b_scale},
                                               {heads.b_row, sizes_.c_scale},
                                               {heads.count, sizes_.dt_scale}}};
  scale_columns(pass.runtime, whole, parts);
}

Tensor MambaMixer::convolve(const Heads& heads, const Pass& pass, const Tensor& in) const {
  const Tensor weight = heads.of_convolution.of(pass.runtime, pass.weight(convolution));
  const Tensor bias = heads.of_convolution.of(pass.runtime, pass.weight(convolution_bias));
  return causal_convolution_forward(pass.runtime, {heads.seq_len, weight, bias},
                                    heads.convolved(in));
}

StateSpaceInput MambaMixer::scan_input(const Heads& heads, const Tensor& in,
                                       const Tensor& made) const {
  const std::int64_t x = heads.inner / heads.ranks;
  const std::int64_t b = heads.b_row / heads.group_parts;
  return {.x = {made, 0, x},
          .b = {made, x, b},
          .c = {made, x + b, b},
          .dt = {in, heads.first() + x + 2 * b, heads.count / heads.ranks},
          .a_log = {},
          .dt_bias = {},
          .d_skip = {}};
}

Tensor MambaMixer::forward_scan(const Heads& heads, const Pass& pass,
                                std::span<Tensor> kept) const {
  StateSpaceInput input = scan_input(heads, kept[projected], kept[convolved]);
  input.a_log = heads.of_heads.of(pass.runtime, pass.weight(a_log));
  input.dt_bias = heads.of_heads.of(pass.runtime, pass.weight(dt_bias));
  input.d_skip = heads.of_heads.of(pass.runtime, pass.weight(d_skip));
  return state_space_forward(pass.runtime, heads.shape(sizes_, kept[projected]), input);
}

Columns MambaMixer::gate_of(const Heads& heads, std::span<Tensor> kept) const {
  return heads.are_exchanged() ? all_columns(kept[gate]) : Columns{kept[projected], 0, heads.inner};
}

Tensor MambaMixer::forward_norm(const Heads& heads, const Pass& pass,
                                std::span<Tensor> kept) const {
  if (!sizes_.has_norm) return silu_gate_forward(pass.runtime, kept[o], gate_of(heads, kept));
  const GatedNorm gated{pass.weight(norm), heads.inner / heads.groups, options_.norm_epsilon,
                        /*gate_first=*/true};
  GatedNormOutput out = gated_norm_forward(pass.runtime, gated, kept[o], gate_of(heads, kept));
  kept[statistics] = std::move(out.statistics);
  return std::move(out.y);
}

Tensor MambaMixer::forward_inside(const Pass& pass, Tensor entered, BranchInput& x,
                                  std::span<Tensor> kept) const {
  const Heads heads(options_, pass);
  kept[projected] = apply_linear(pass, w_in, entered);  // (b, s / c, 2 D + 2 G N + n_m)
  scale_parts(heads, pass, kept[projected]);
  const Shape tokens = with_last(entered.shape(), heads.inner);
  entered = {};
  x.drop_recomputed();
  if (heads.are_exchanged()) {
    kept[gate] = copy_columns(pass.runtime, {kept[projected], 0, heads.inner});
    kept[projected] = heads.exchange(pass, heads.of_projection)
                          .to_heads(heads.behind_gate(kept[projected]), "mamba input");
  }
  kept[convolved] = convolve(heads, pass, kept[projected]);
  kept[o] = forward_scan(heads, pass, kept);
  if (options_.recomputes(RecomputeModule::activation)) kept[convolved] = {};
  if (heads.are_exchanged()) {
    Tensor own = new_activation(pass.runtime, tokens, kept[o].dtype());
    heads.exchange(pass, heads.of_output).to_positions(kept[o], all_columns(own), "mamba output");
    kept[o] = std::move(own);
  }
  kept[y] = forward_norm(heads, pass, kept);
  return kept[y];
}

bool MambaMixer::recomputes_row_input() const {
  return options_.recomputes(RecomputeModule::activation);
}

void MambaMixer::drop_row_input(std::span<Tensor> kept, bool is_quantized) const {
  if (recomputes_row_input() || is_quantized) kept[y] = {};
}

Tensor MambaMixer::row_input(const Pass& pass, std::span<Tensor> kept) const {
  if (!kept[y].defined()) return forward_norm(Heads(options_, pass), pass, kept);
  return std::move(kept[y]);
}

Tensor MambaMixer::backward_norm(const Heads& heads, const Pass& pass, const Tensor& d,
                                 std::span<Tensor> kept, const Tensor& d_in) const {
  Tensor slope;
  Tensor d_o;
  if (!sizes_.has_norm) {
    d_o =
        silu_gate_backward(pass.runtime, kept[o], gate_of(heads, kept), d, {d_in, 0, heads.inner});
  } else {
    const GatedNorm gated{pass.weight(norm), heads.inner / heads.groups, options_.norm_epsilon,
                          /*gate_first=*/true};
    slope = gradient_of_sum(pass, norm, gated.weight);
    d_o = gated_norm_backward(pass.runtime, gated, kept[o], gate_of(heads, kept), kept[statistics],
                              d, {d_in, 0, heads.inner}, slope);
  }
  for (const Kept used : {gate, o, statistics}) kept[used] = {};
  if (sizes_.has_norm) finish_sum(pass, norm, std::move(slope));
  return d_o;
}

Tensor MambaMixer::backward_scan(const Heads& heads, const Pass& pass, const Tensor& d,
                                 std::span<Tensor> kept, const Tensor& d_in) const {
  if (!kept[convolved].defined()) kept[convolved] = convolve(heads, pass, kept[projected]);
  Tensor d_convolved =
      new_activation(pass.runtime, kept[convolved].shape(), kept[convolved].dtype());
  HeadParameter decay(pass, a_log, heads.of_heads);
  HeadParameter bias(pass, dt_bias, heads.of_heads);
  HeadParameter skip(pass, d_skip, heads.of_heads);
  {
    StateSpaceInput input = scan_input(heads, kept[projected], kept[convolved]);
    input.a_log = decay.weight();
    input.dt_bias = bias.weight();
    input.d_skip = skip.weight();
    StateSpaceInput gradient = scan_input(heads, d_in, d_convolved);
    gradient.a_log = decay.gradient();
    gradient.dt_bias = bias.gradient();
    gradient.d_skip = skip.gradient();
    state_space_backward(pass.runtime, heads.shape(sizes_, kept[projected]), input, d, gradient);
  }
  kept[convolved] = {};
  skip.finish();
  bias.finish();
  decay.finish();
  return d_convolved;
}

void MambaMixer::backward_convolution(const Heads& heads, const Pass& pass, const Tensor& d,
                                      std::span<Tensor> kept, const Tensor& d_in) const {
  HeadParameter weight(pass, convolution, heads.of_convolution);
  HeadParameter bias(pass, convolution_bias, heads.of_convolution);
  causal_convolution_backward(pass.runtime, {heads.seq_len, weight.weight(), bias.weight()},
                              heads.convolved(kept[projected]), d,
                              {heads.convolved(d_in), weight.gradient(), bias.gradient()});
  kept[projected] = {};
  bias.finish();
  weight.finish();
}

ColumnLinears MambaMixer::backward_inside(const Pass& pass, Tensor d,
                                          std::span<Tensor> kept) const {
  const Heads heads(options_, pass);
  const Shape all = with_last(d.shape(), heads.inner + heads.of_projection.whole());
  Tensor d_own = new_activation(pass.runtime, all, d.dtype());
  d = backward_norm(heads, pass, d, kept, d_own);
  Tensor d_in = d_own;
  if (heads.are_exchanged()) {
    d = heads.exchange(pass, heads.of_output).to_heads(all_columns(d), "mamba output gradient");
    d_in = new_activation(pass.runtime, kept[projected].shape(), d.dtype());
  }
  d = backward_scan(heads, pass, d, kept, d_in);
  backward_convolution(heads, pass, d, kept, d_in);
  d = {};
  if (heads.are_exchanged()) {
    heads.exchange(pass, heads.of_projection)
        .to_positions(d_in, heads.behind_gate(d_own), "mamba input gradient");
  }
  scale_parts(heads, pass, d_own);
  ColumnLinears readers;
  readers.add({.k = w_in, .dy = std::move(d_own)});
  return readers;
}

std::int64_t MambaMixer::forward_flops_per_sample(int /*block*/) const {
  return checked_product(
      {7, options_.seq_len, sizes_.num_heads, sizes_.head_size, sizes_.state_size});
}

}  // namespace shardsim

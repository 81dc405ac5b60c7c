#include "strategies/model/delta_rule.hpp"

#include <cmath>
#include <vector>

#include "strategies/model/activation.hpp"
#include "strategies/model/column_blocks.hpp"
#include "strategies/model/delta_rule_chunk.hpp"

namespace shardsim {

namespace {

constexpr double kNormEpsilon = 1e-6;

void require_delta_input(const DeltaRuleShape& shape, const DeltaRuleInput& input) {
  const char* const layer = "gated delta rule";
  const std::int64_t rows = shape.rows();
  const std::int64_t heads = shape.value_heads;
  require_size(layer, "remainder of the value heads by the key heads", heads % shape.key_heads, 0);
  require_columns(layer, "number of elements of q", input.q, rows, shape.k_row());
  require_columns(layer, "number of elements of k", input.k, rows, shape.k_row());
  require_columns(layer, "number of elements of v", input.v, rows, shape.v_row());
  require_columns(layer, "number of elements of beta", input.beta, rows, heads);
  require_columns(layer, "number of elements of a", input.a, rows, heads);
  require_size(layer, "size of A_log", input.a_log.numel(), heads);
  require_size(layer, "size of dt_bias", input.dt_bias.numel(), heads);
}

std::int64_t bytes_of_delta_columns(const DeltaRuleInput& input) {
  return input.q.num_bytes() + input.k.num_bytes() + input.v.num_bytes() + input.beta.num_bytes() +
         input.a.num_bytes();
}
std::int64_t bytes_of_delta_vectors(const DeltaRuleInput& input) {
  return input.a_log.num_bytes() + input.dt_bias.num_bytes();
}

// W, U and N of all tokens, S of all chunks.
std::int64_t delta_bytes_between(const DeltaRuleShape& shape, DType dtype) {
  const std::int64_t heads = shape.batch * shape.value_heads;
  const std::int64_t of_tokens =
      checked_product({heads, shape.seq_len, shape.key_size + 2 * shape.value_size});
  const std::int64_t of_states =
      checked_product({heads, shape.chunks().count(), shape.key_size, shape.value_size});
  return checked_product({checked_sum({of_tokens, of_states}), size_of(dtype)});
}

// `times`: how often the products of forward are done. `again`: whether W, U and S are, once more.
ComputeOp delta_rule_op(const char* name, KernelFamily family, const DeltaRuleShape& shape,
                        std::int64_t times, bool again, DType dtype, std::int64_t bytes) {
  const SequenceChunks chunks = shape.chunks();
  const std::int64_t keys = shape.key_size;
  const std::int64_t values = shape.value_size;
  const std::int64_t per_pair = times * (6 * keys + 4 * values) + (again ? 2 * (keys + values) : 0);
  const std::int64_t per_token = checked_product({times * 6 + (again ? 4 : 0), keys, values});
  const std::int64_t heads = shape.batch * shape.value_heads;
  const std::int64_t flops = checked_sum({checked_product({heads, chunks.squares(), per_pair}),
                                          checked_product({heads, shape.seq_len, per_token}),
                                          checked_product({heads, times, chunks.cubes()}) / 3});
  return {name, ComputeKind::matmul, dtype, flops, bytes, {family}};
}

// A head's place in a chunk.
struct DeltaPlace {
  const DeltaRuleShape& shape;
  std::int64_t head;
  std::int64_t row;
  std::int64_t rows;

  [[nodiscard]] Block keys() const {
    const std::int64_t key_head = head / (shape.value_heads / shape.key_heads);
    return {row, rows, key_head * shape.key_size, shape.key_size};
  }
  [[nodiscard]] Block values() const {
    return {row, rows, head * shape.value_size, shape.value_size};
  }
  [[nodiscard]] Block number() const { return {row, rows, head, 1}; }
  [[nodiscard]] Block inverse() const { return {row, rows, head * shape.chunks().size, rows}; }
};

DeltaPlace delta_place(const DeltaRuleShape& shape, std::int64_t sample, std::int64_t head,
                       std::int64_t chunk) {
  const SequenceChunks chunks = shape.chunks();
  return {shape, head, sample * shape.seq_len + chunks.first(chunk), chunks.length(chunk)};
}

// Calls `work` with the number of each sample and head.
template <class Work>
void for_each_delta_head(const DeltaRuleShape& shape, Work&& work) {
  for (std::int64_t sample = 0; sample < shape.batch; ++sample) {
    for (std::int64_t head = 0; head < shape.value_heads; ++head) work(sample, head);
  }
}

// 1 / sqrt(sum of squares + epsilon) of each row.
ColumnVector reciprocal_lengths(const RowMatrix& x) {
  return (x.rowwise().squaredNorm().array() + kNormEpsilon).rsqrt().matrix();
}
RowMatrix normed(const RowMatrix& x) { return reciprocal_lengths(x).asDiagonal() * x; }

// The backward of y = x r, r = (|x|^2 + epsilon)^-1/2: dx = r (dy - y (y . dy)).
RowMatrix normed_backward(const RowMatrix& x, const RowMatrix& dy) {
  const ColumnVector r = reciprocal_lengths(x);
  const RowMatrix y = r.asDiagonal() * x;
  const ColumnVector along = y.cwiseProduct(dy).rowwise().sum();
  return r.asDiagonal() * (dy - along.asDiagonal() * y);
}

double scale_of_queries(const DeltaRuleShape& shape) {
  return 1.0 / std::sqrt(static_cast<double>(shape.key_size));
}

// g of one head, per row of a chunk.
ColumnVector delta_gates(const DeltaRuleInput& input, const DeltaPlace& place) {
  const double rate = -std::exp(input.a_log.get(place.head));
  const double bias = input.dt_bias.get(place.head);
  const ColumnVector a = load_block(input.a, place.number());
  return a.unaryExpr([rate, bias](double x) { return rate * softplus(x + bias); });
}

DeltaChunk load_delta_chunk(const DeltaRuleInput& input, const Tensor& sums,
                            const DeltaPlace& place) {
  const ColumnVector beta = load_block(input.beta, place.number());
  return {.q = scale_of_queries(place.shape) * normed(load_block(input.q, place.keys())),
          .k = normed(load_block(input.k, place.keys())),
          .v = load_block(input.v, place.values()),
          .beta = beta.unaryExpr([](double x) { return sigmoid(x); }),
          .sums = load_block(all_columns(sums), place.number())};
}

// Gradients of one head's columns, in matrices of all rows, for heads share q and k.
struct DeltaSlopes {
  RowMatrix q;
  RowMatrix k;
  std::vector<double> a_log;
  std::vector<double> dt_bias;
};

// From the gradients of what a chunk computes with to those of the input.
void spread_delta_gradient(const DeltaRuleInput& input, const DeltaPlace& place,
                           const DeltaChunk& chunk, const DeltaChunk& d,
                           const DeltaRuleInput& gradient, DeltaSlopes& slopes) {
  const double scale = scale_of_queries(place.shape);
  add_block(slopes.q, place.keys(),
            normed_backward(load_block(input.q, place.keys()), scale * d.q));
  add_block(slopes.k, place.keys(), normed_backward(load_block(input.k, place.keys()), d.k));
  store_block(gradient.v, place.values(), d.v);
  const ColumnVector one_less = ColumnVector::Ones(chunk.beta.size()) - chunk.beta;
  store_block(gradient.beta, place.number(),
              d.beta.cwiseProduct(chunk.beta).cwiseProduct(one_less));
  // g = -e^A_log softplus(a + dt_bias), so its slope by A_log is g.
  const ColumnVector dg = decay_sums_backward(d.sums);
  slopes.a_log[to_size(place.head)] += dg.dot(delta_gates(input, place));
  const double rate = -std::exp(input.a_log.get(place.head));
  const double bias = input.dt_bias.get(place.head);
  const ColumnVector a = load_block(input.a, place.number());
  const ColumnVector da =
      dg.cwiseProduct(a.unaryExpr([rate, bias](double x) { return rate * sigmoid(x + bias); }));
  slopes.dt_bias[to_size(place.head)] += da.sum();
  store_block(gradient.a, place.number(), da);
}

// S ahead of each chunk.
std::vector<RowMatrix> delta_states(const DeltaRuleShape& shape, const DeltaRuleInput& input,
                                    const DeltaRuleOutput& forward, std::int64_t sample,
                                    std::int64_t head) {
  std::vector<RowMatrix> states = {RowMatrix::Zero(shape.key_size, shape.value_size)};
  for (std::int64_t i = 0; i + 1 < shape.chunks().count(); ++i) {
    const DeltaPlace place = delta_place(shape, sample, head, i);
    const DeltaChunk chunk = load_delta_chunk(input, forward.sums, place);
    const RowMatrix inverse = load_block(all_columns(forward.inverse), place.inverse());
    const RowMatrix values = delta_values(chunk, inverse, states.back());
    states.push_back(delta_next_state(chunk, values, states.back()));
  }
  return states;
}

}  // namespace

DeltaRuleOutput delta_rule_forward(Runtime& runtime, const DeltaRuleShape& shape,
                                   const DeltaRuleInput& input) {
  require_delta_input(shape, input);
  const DType dtype = input.v.dtype();
  const auto rows = [&](std::int64_t columns) {
    return Shape{shape.batch, shape.seq_len, columns};
  };
  DeltaRuleOutput out;
  out.o = new_activation(runtime, rows(shape.v_row()), dtype);
  out.sums = new_activation(runtime, rows(shape.value_heads), statistics_dtype(dtype));
  out.inverse = new_activation(runtime, rows(shape.value_heads * shape.chunks().size), dtype);
  const std::int64_t between = delta_bytes_between(shape, dtype);
  const Tensor beside = runtime.occupy(MemoryCategory::activations, static_cast<double>(between));
  const std::int64_t bytes = bytes_of_delta_columns(input) + bytes_of_delta_vectors(input) +
                             out.o.num_bytes() + out.sums.num_bytes() + out.inverse.num_bytes() +
                             2 * between;
  const ComputeOp op =
      delta_rule_op("delta_rule", KernelFamily::delta_rule, shape, 1, false, dtype, bytes);
  runtime.compute(op, [&] {
    for_each_delta_head(shape, [&](std::int64_t sample, std::int64_t head) {
      RowMatrix state = RowMatrix::Zero(shape.key_size, shape.value_size);
      for (std::int64_t i = 0; i < shape.chunks().count(); ++i) {
        const DeltaPlace place = delta_place(shape, sample, head, i);
        store_block(all_columns(out.sums), place.number(), decay_sums(delta_gates(input, place)));
        // From here on with what was stored, as backward does.
        const DeltaChunk chunk = load_delta_chunk(input, out.sums, place);
        store_block(all_columns(out.inverse), place.inverse(), delta_inverse(chunk));
        const RowMatrix inverse = load_block(all_columns(out.inverse), place.inverse());
        const RowMatrix values = delta_values(chunk, inverse, state);
        store_block(all_columns(out.o), place.values(), delta_output(chunk, values, state));
        state = delta_next_state(chunk, values, state);
      }
    });
  });
  return out;
}

void delta_rule_backward(Runtime& runtime, const DeltaRuleShape& shape, const DeltaRuleInput& input,
                         const DeltaRuleOutput& forward, const Tensor& d_o,
                         const DeltaRuleInput& gradient) {
  require_delta_input(shape, input);
  require_delta_input(shape, gradient);
  require_size("gated delta rule backward", "number of elements of do", d_o.numel(),
               forward.o.numel());
  const DType dtype = input.v.dtype();
  const std::int64_t between = 2 * delta_bytes_between(shape, dtype);
  const Tensor beside = runtime.occupy(MemoryCategory::activations, static_cast<double>(between));
  const std::int64_t bytes = bytes_of_delta_columns(input) + bytes_of_delta_vectors(input) +
                             forward.sums.num_bytes() + forward.inverse.num_bytes() +
                             d_o.num_bytes() + bytes_of_delta_columns(gradient) +
                             2 * bytes_of_delta_vectors(gradient) + 2 * between;
  const ComputeOp op = delta_rule_op("delta_rule_backward", KernelFamily::delta_rule_backward,
                                     shape, 2, true, dtype, bytes);
  runtime.compute(op, [&] {
    const RowMatrix none = RowMatrix::Zero(shape.rows(), shape.k_row());
    const std::vector<double> zeros(to_size(shape.value_heads));
    DeltaSlopes slopes{none, none, zeros, zeros};
    for_each_delta_head(shape, [&](std::int64_t sample, std::int64_t head) {
      const std::vector<RowMatrix> states = delta_states(shape, input, forward, sample, head);
      RowMatrix d_state = RowMatrix::Zero(shape.key_size, shape.value_size);
      for (std::int64_t i = shape.chunks().count() - 1; i >= 0; --i) {
        const DeltaPlace place = delta_place(shape, sample, head, i);
        const DeltaChunk chunk = load_delta_chunk(input, forward.sums, place);
        const RowMatrix inverse = load_block(all_columns(forward.inverse), place.inverse());
        const RowMatrix d_output = load_block(all_columns(d_o), place.values());
        const DeltaChunk d =
            delta_chunk_backward(chunk, inverse, states[to_size(i)], d_output, d_state);
        spread_delta_gradient(input, place, chunk, d, gradient, slopes);
      }
    });
    store_block(gradient.q, {0, shape.rows(), 0, shape.k_row()}, slopes.q);
    store_block(gradient.k, {0, shape.rows(), 0, shape.k_row()}, slopes.k);
    add_values(gradient.a_log, slopes.a_log);
    add_values(gradient.dt_bias, slopes.dt_bias);
  });
}

}  // namespace shardsim

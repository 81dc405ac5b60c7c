#include "strategies/model/state_space.hpp"

#include <cmath>
#include <vector>

#include "strategies/model/activation.hpp"
#include "strategies/model/column_blocks.hpp"
#include "strategies/model/state_space_chunk.hpp"

namespace shardsim {

namespace {

void require_scan_input(const StateSpaceShape& shape, const StateSpaceInput& input) {
  const char* const layer = "state space";
  const std::int64_t rows = shape.rows();
  const std::int64_t heads = shape.num_heads;
  require_size(layer, "remainder of the heads by the groups", heads % shape.num_groups, 0);
  require_columns(layer, "number of elements of x", input.x, rows, shape.x_row());
  require_columns(layer, "number of elements of B", input.b, rows, shape.group_row());
  require_columns(layer, "number of elements of C", input.c, rows, shape.group_row());
  require_columns(layer, "number of elements of dt", input.dt, rows, heads);
  require_size(layer, "size of A_log", input.a_log.numel(), heads);
  require_size(layer, "size of dt_bias", input.dt_bias.numel(), heads);
  require_size(layer, "size of D", input.d_skip.numel(), heads);
}

std::int64_t bytes_of_scan_columns(const StateSpaceInput& input) {
  return input.x.num_bytes() + input.b.num_bytes() + input.c.num_bytes() + input.dt.num_bytes();
}
std::int64_t bytes_of_scan_vectors(const StateSpaceInput& input) {
  return input.a_log.num_bytes() + input.dt_bias.num_bytes() + input.d_skip.num_bytes();
}

// Bytes of tensors that stand in memory between a scan's kernels.
struct ScanMemory {
  std::int64_t states = 0;  // The sum that each chunk adds to S.
  std::int64_t passed = 0;  // S ahead of each chunk, in the dtype of x.
  std::int64_t rest = 0;    // dt and G of all tokens, and C B^T.
};

ScanMemory scan_memory(const StateSpaceShape& shape, DType dtype) {
  const SequenceChunks chunks = shape.chunks();
  const std::int64_t element = size_of(statistics_dtype(dtype));
  const std::int64_t heads = shape.batch * shape.num_heads;
  const std::int64_t states =
      checked_product({heads, chunks.count(), shape.head_size, shape.state_size});
  const std::int64_t gates = checked_product({2, heads, shape.seq_len});
  const std::int64_t scores = checked_product({shape.batch, shape.num_groups, chunks.squares()});
  return {.states = checked_product({element, states}),
          .passed = checked_product({size_of(dtype), states}),
          .rest = checked_product({element, checked_sum({gates, scores})})};
}

// Forward's products, `times` over. `again`: C B^T and S once more.
ComputeOp state_space_op(const char* name, const StateSpaceShape& shape, std::int64_t times,
                         bool again, DType dtype, std::int64_t bytes) {
  const std::int64_t more = again ? 1 : 0;
  const std::int64_t pairs = checked_product({shape.batch, shape.chunks().squares()});
  const std::int64_t of_groups = 2 * (times + more) * shape.group_row();
  const std::int64_t of_heads = 2 * times * shape.x_row();
  const std::int64_t of_states =
      checked_product({4 * times + 2 * more, shape.x_row(), shape.state_size});
  const std::int64_t flops = checked_sum(
      {checked_product({pairs, of_groups + of_heads}), checked_product({shape.rows(), of_states})});
  return {name, ComputeKind::matmul, dtype, flops, bytes};
}

// One head in one chunk of a sample, and what it computes with.
struct ScanPlace {
  const StateSpaceShape& shape;
  const StateSpaceInput& input;
  std::int64_t head;
  std::int64_t row;
  std::int64_t rows;

  [[nodiscard]] Block values() const {
    return {row, rows, head * shape.head_size, shape.head_size};
  }
  [[nodiscard]] Block group() const {
    const std::int64_t number = head / (shape.num_heads / shape.num_groups);
    return {row, rows, number * shape.state_size, shape.state_size};
  }
  [[nodiscard]] Block number() const { return {row, rows, head, 1}; }
  [[nodiscard]] double rate() const { return -std::exp(input.a_log.get(head)); }  // A
  // dt' + dt_bias
  [[nodiscard]] ColumnVector before_softplus() const {
    const ColumnVector dt = load_block(input.dt, number());
    return (dt.array() + input.dt_bias.get(head)).matrix();
  }
  [[nodiscard]] ColumnVector steps() const {  // dt
    return before_softplus().unaryExpr([](double x) { return softplus(x); });
  }
  [[nodiscard]] ScanChunk chunk() const {
    const ColumnVector dt = steps();
    return {.x = dt.asDiagonal() * load_block(input.x, values()),
            .b = load_block(input.b, group()),
            .c = load_block(input.c, group()),
            .sums = decay_sums(rate() * dt)};
  }
};

// The places of one head in the chunks of one sample.
std::vector<ScanPlace> scan_places(const StateSpaceShape& shape, const StateSpaceInput& input,
                                   std::int64_t sample, std::int64_t head) {
  const SequenceChunks chunks = shape.chunks();
  std::vector<ScanPlace> places;
  for (std::int64_t i = 0; i < chunks.count(); ++i) {
    places.push_back(
        {shape, input, head, sample * shape.seq_len + chunks.first(i), chunks.length(i)});
  }
  return places;
}

// Calls `work` with the places of each sample's head.
template <class Work>
void for_each_scan(const StateSpaceShape& shape, const StateSpaceInput& input, Work&& work) {
  for (std::int64_t sample = 0; sample < shape.batch; ++sample) {
    for (std::int64_t head = 0; head < shape.num_heads; ++head) {
      work(scan_places(shape, input, sample, head));
    }
  }
}

RowMatrix first_state(const StateSpaceShape& shape) {
  return RowMatrix::Zero(shape.head_size, shape.state_size);
}

// Gradients that several places add to.
struct ScanSlopes {
  RowMatrix b;
  RowMatrix c;
  std::vector<double> a_log;
  std::vector<double> dt_bias;
  std::vector<double> d_skip;
};

// From the gradients of what a chunk computes with to those of the input.
void spread_scan_gradient(const ScanPlace& place, const ScanChunk& d, const RowMatrix& d_output,
                          const StateSpaceInput& gradient, ScanSlopes& slopes) {
  const StateSpaceInput& input = place.input;
  const std::size_t head = to_size(place.head);
  add_block(slopes.b, place.group(), d.b);
  add_block(slopes.c, place.group(), d.c);
  const RowMatrix x = load_block(input.x, place.values());
  const ColumnVector dt = place.steps();
  const RowMatrix dx = dt.asDiagonal() * d.x + input.d_skip.get(place.head) * d_output;
  store_block(gradient.x, place.values(), dx);
  slopes.d_skip[head] += x.cwiseProduct(d_output).sum();
  // Each step dt weighs x, and A dt is the logarithm of a decay.
  const ColumnVector d_log = decay_sums_backward(d.sums);
  slopes.a_log[head] += place.rate() * d_log.dot(dt);  // A is its own slope by A_log.
  const ColumnVector d_steps = place.rate() * d_log + x.cwiseProduct(d.x).rowwise().sum();
  const ColumnVector slope =
      place.before_softplus().unaryExpr([](double value) { return sigmoid(value); });
  const ColumnVector d_dt = d_steps.cwiseProduct(slope);
  slopes.dt_bias[head] += d_dt.sum();
  store_block(gradient.dt, place.number(), d_dt);
}

}  // namespace

Tensor state_space_forward(Runtime& runtime, const StateSpaceShape& shape,
                           const StateSpaceInput& input) {
  require_scan_input(shape, input);
  const DType dtype = input.x.dtype();
  Tensor y = new_activation(runtime, {shape.batch, shape.seq_len, shape.x_row()}, dtype);
  const ScanMemory between = scan_memory(shape, dtype);
  const std::int64_t held = between.states + between.passed + between.rest;
  const Tensor beside = runtime.occupy(MemoryCategory::activations, static_cast<double>(held));
  const std::int64_t bytes =
      bytes_of_scan_columns(input) + bytes_of_scan_vectors(input) + y.num_bytes() + 2 * held;
  runtime.compute(state_space_op("state_space", shape, 1, false, dtype, bytes), [&] {
    for_each_scan(shape, input, [&](const std::vector<ScanPlace>& places) {
      RowMatrix state = first_state(shape);
      for (const ScanPlace& place : places) {
        const ScanChunk chunk = place.chunk();
        const RowMatrix skipped =
            input.d_skip.get(place.head) * load_block(input.x, place.values());
        store_block(all_columns(y), place.values(), scan_output(chunk, state) + skipped);
        state = scan_next_state(chunk, state);
      }
    });
  });
  return y;
}

void state_space_backward(Runtime& runtime, const StateSpaceShape& shape,
                          const StateSpaceInput& input, const Tensor& dy,
                          const StateSpaceInput& gradient) {
  require_scan_input(shape, input);
  require_scan_input(shape, gradient);
  require_size("state space backward", "number of elements of dy", dy.numel(),
               shape.rows() * shape.x_row());
  const DType dtype = input.x.dtype();
  const ScanMemory between = scan_memory(shape, dtype);
  const std::int64_t held = 2 * (between.states + between.rest);
  const Tensor beside = runtime.occupy(MemoryCategory::activations, static_cast<double>(held));
  const std::int64_t bytes = bytes_of_scan_columns(input) + bytes_of_scan_vectors(input) +
                             dy.num_bytes() + bytes_of_scan_columns(gradient) +
                             2 * bytes_of_scan_vectors(gradient) + 2 * held + 4 * between.states;
  runtime.compute(state_space_op("state_space_backward", shape, 2, true, dtype, bytes), [&] {
    const RowMatrix none = RowMatrix::Zero(shape.rows(), shape.group_row());
    const std::vector<double> zeros(to_size(shape.num_heads));
    ScanSlopes slopes{none, none, zeros, zeros, zeros};
    for_each_scan(shape, input, [&](const std::vector<ScanPlace>& places) {
      std::vector<RowMatrix> states = {first_state(shape)};
      for (const ScanPlace& place : places) {
        states.push_back(scan_next_state(place.chunk(), states.back()));
      }
      RowMatrix d_state = first_state(shape);
      for (std::size_t i = places.size(); i-- > 0;) {
        const ScanPlace& place = places[i];
        const RowMatrix d_output = load_block(all_columns(dy), place.values());
        const ScanChunk d = scan_backward(place.chunk(), states[i], d_output, d_state);
        spread_scan_gradient(place, d, d_output, gradient, slopes);
      }
    });
    const Block groups{0, shape.rows(), 0, shape.group_row()};
    store_block(gradient.b, groups, slopes.b);
    store_block(gradient.c, groups, slopes.c);
    add_values(gradient.a_log, slopes.a_log);
    add_values(gradient.dt_bias, slopes.dt_bias);
    add_values(gradient.d_skip, slopes.d_skip);
  });
}

}  // namespace shardsim

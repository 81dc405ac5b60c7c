#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "strategies/sharding/context_parallel.hpp"

#include "tests/backends/fiber_fixture.hpp"
#include "tests/strategies/layer_fixture.hpp"

// Attention on one device, and the same by c ranks in any form, side by side.
namespace shardsim::test {

struct ContextCase {
  ContextAttention form = ContextAttention::ring;
  int c = 2;
  int ulysses_degree = 1;  ///< For two_level.
  AttentionShape shape;    ///< The shape of whole samples.
  bool fused = false;      ///< q, k and v lie in one tensor.
  bool has_sinks = false;

  [[nodiscard]] std::int64_t share() const { return shape.seq_len / c; }
  [[nodiscard]] std::int64_t q_width() const { return shape.num_heads * shape.head_size; }
  [[nodiscard]] std::int64_t k_width() const { return shape.num_groups * shape.head_size; }
  [[nodiscard]] std::int64_t v_width() const { return shape.num_groups * shape.value_width(); }
  [[nodiscard]] std::int64_t y_width() const { return shape.num_heads * shape.value_width(); }
};

inline const char* name_of(ContextAttention form) {
  constexpr const char* kNames[] = {"ring", "all_gather", "ulysses", "two_level"};
  return kNames[static_cast<int>(form)];
}

inline std::string describe(const ContextCase& c) {
  std::ostringstream text;
  text << name_of(c.form) << " c " << c.c << " u " << c.ulysses_degree << " b " << c.shape.batch
       << " s " << c.shape.seq_len << " a " << c.shape.num_heads << " g " << c.shape.num_groups
       << " d " << c.shape.head_size << " d_v " << c.shape.value_width() << " mask "
       << static_cast<int>(c.shape.mask.reach) << " of " << c.shape.mask.size
       << (c.has_sinks ? " sinks" : "") << (c.fused ? " fused" : "");
  return text.str();
}

/// The rows of `whole` [b, s, width] at the positions of a part.
inline Tensor rows_of(const Tensor& whole, std::int64_t seq_len, const SequencePart& part) {
  const std::int64_t width = last_dim(whole);
  const std::int64_t samples = num_rows(whole) / seq_len;
  const Tensor rows = zeros({samples, part.length(seq_len), width}, whole.dtype());
  for (std::int64_t row = 0; row < num_rows(rows); ++row) {
    const std::int64_t from = part.token_of(row, seq_len);
    for (std::int64_t i = 0; i < width; ++i) {
      rows.set(row * width + i, whole.get(from * width + i));
    }
  }
  return rows;
}

/// q, k and v of a rank, or of one device: side by side in one tensor, or each in its own.
struct QueryKeyValue : QkvHeads {
  QueryKeyValue(Runtime& runtime, const ContextCase& c, std::int64_t positions, DType dtype) {
    const auto allocate = [&](std::int64_t width) {
      return runtime.allocate(MemoryCategory::activations, {c.shape.batch, positions, width},
                              dtype);
    };
    if (c.fused) {
      const std::int64_t width = c.q_width() + c.k_width() + c.v_width();
      const Tensor all = allocate(width);
      q = {all, width, 0};
      k = {all, width, c.q_width()};
      v = {all, width, c.q_width() + c.k_width()};
      return;
    }
    q = {allocate(c.q_width()), c.q_width(), 0};
    k = {allocate(c.k_width()), c.k_width(), 0};
    v = {allocate(c.v_width()), c.v_width(), 0};
  }
};

/// Copies between heads and a tensor [rows, width] of them alone.
inline void fill(const Heads& heads, const Tensor& from) {
  const std::int64_t width = last_dim(from);
  for (std::int64_t i = 0; i < from.numel(); ++i) {
    heads.tensor.set(i / width * heads.row_stride + heads.first + i % width, from.get(i));
  }
}
inline Tensor taken(const Heads& heads, const Shape& shape) {
  const Tensor to = zeros(shape, heads.tensor.dtype());
  const std::int64_t width = last_dim(to);
  for (std::int64_t i = 0; i < to.numel(); ++i) {
    to.set(i, heads.tensor.get(i / width * heads.row_stride + heads.first + i % width));
  }
  return to;
}

/// Inputs, outputs and gradients, whole.
struct DenseAttention {
  explicit DenseAttention(const ContextCase& c, double scale = 1.0, DType dtype = DType::fp64) {
    const std::int64_t b = c.shape.batch;
    const std::int64_t s = c.shape.seq_len;
    q = scaled(random_tensor("q", {b, s, c.q_width()}, dtype), scale);
    k = scaled(random_tensor("k", {b, s, c.k_width()}, dtype), scale);
    v = random_tensor("v", {b, s, c.v_width()}, dtype);
    dy = random_tensor("dy", {b, s, c.y_width()}, dtype);
    if (c.has_sinks) {
      sinks.sinks.tensor = random_tensor("sinks", {c.shape.num_heads}, dtype);
      sinks.gradient = zeros({c.shape.num_heads}, dtype);
    }
    dq = zeros(q.shape(), dtype);
    dk = zeros(k.shape(), dtype);
    dv = zeros(v.shape(), dtype);
    LocalRuntime runtime;
    const auto heads = [&](const Tensor& of_q, const Tensor& of_k, const Tensor& of_v) {
      return QkvHeads{{of_q, c.q_width(), 0}, {of_k, c.k_width(), 0}, {of_v, c.v_width(), 0}};
    };
    const AttentionOutput out = attention_forward(runtime, c.shape, heads(q, k, v));
    add_sinks(runtime, c.shape, sinks.sinks, out);
    y = out.y;
    sinks_backward(runtime, c.shape, sinks, out, dy);
    attention_backward(runtime, c.shape, heads(q, k, v), out, dy, heads(dq, dk, dv));
  }

  static Tensor scaled(const Tensor& tensor, double factor) {
    for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.set(i, tensor.get(i) * factor);
    return tensor;
  }

  Tensor q, k, v, dy;
  Tensor y, dq, dk, dv;
  SinkSlopes sinks;  // Undefined, if there are none.
};

/// Forward and backward of one rank. `whole` null: without data.
struct ContextRun {
  ContextRun(const ContextCase& c, Runtime& runtime, Communicator& group,
             const DenseAttention* whole, DType dtype = DType::fp64)
      : parallel(group, c.form, c.ulysses_degree),
        inputs(runtime, c, c.share(), dtype),
        gradients(runtime, c, c.share(), dtype),
        dy(runtime.allocate(MemoryCategory::activations, {c.shape.batch, c.share(), c.y_width()},
                            dtype)) {
    if (whole != nullptr) {
      const auto mine = [&](const Tensor& all) {
        return rows_of(all, c.shape.seq_len, parallel.part());
      };
      fill(inputs.q, mine(whole->q));
      fill(inputs.k, mine(whole->k));
      fill(inputs.v, mine(whole->v));
      fill({dy, c.y_width(), 0}, mine(whole->dy));
    }
    if (c.has_sinks) {
      sinks.sinks.tensor =
          whole != nullptr ? whole->sinks.sinks.tensor
                           : runtime.allocate(MemoryCategory::params, {c.shape.num_heads}, dtype);
      sinks.gradient = runtime.allocate(MemoryCategory::grads, {c.shape.num_heads}, dtype);
    }
    out = parallel.forward(runtime, c.shape, inputs, sinks.sinks);
    after_forward = runtime.ledger()->total_now();
    parallel.backward(runtime, c.shape, inputs, out, dy, gradients, sinks);
  }

  ContextParallel parallel;
  QueryKeyValue inputs;
  QueryKeyValue gradients;
  Tensor dy;
  SinkSlopes sinks;
  Attended out;
  std::int64_t after_forward = 0;
};

/// Elements that a rank sends, forward and backward, by the formulas of docs/decisions/0028.
inline std::int64_t elements_sent(const ContextCase& c) {
  const std::int64_t u = ulysses_size(c.form, c.c, c.ulysses_degree);
  const std::int64_t ring = c.c / u;
  const std::int64_t tokens = c.shape.batch * c.share();
  const std::int64_t keys = c.k_width() + c.v_width();
  const std::int64_t exchanged = 2 * (c.q_width() + c.y_width() + keys) * tokens * (u - 1) / u;
  return 3 * tokens * keys * (ring - 1) + exchanged;
}

/// Every form that fits c ranks: heads and groups are multiples of c.
inline std::vector<ContextCase> forms_of(int c) {
  std::vector<ContextCase> forms = {{.form = ContextAttention::ring, .c = c},
                                    {.form = ContextAttention::all_gather, .c = c},
                                    {.form = ContextAttention::ulysses, .c = c}};
  for (int u = 1; u <= c; ++u) {
    if (c % u != 0 || (c < 4 && u != 1)) continue;
    forms.push_back({.form = ContextAttention::two_level, .c = c, .ulysses_degree = u});
  }
  return forms;
}

}  // namespace shardsim::test

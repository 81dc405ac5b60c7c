#include "tests/mutants/shifted_mask.hpp"

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "strategies/model/layer.hpp"
#include "strategies/model/model_wrapper.hpp"
#include "strategies/sharding/context_parallel.hpp"

#include "sim/experiment/experiment.hpp"

#include "tests/mutants/wrapped_sync.hpp"

namespace shardsim::test {

namespace {

using RingNumbers = std::vector<double>;

RingNumbers ring_rows_of(const Heads& heads, std::int64_t rows, std::int64_t width) {
  RingNumbers numbers;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < width; ++i) {
      numbers.push_back(heads.tensor.get(row * heads.row_stride + heads.first + i));
    }
  }
  return numbers;
}

// Those of all ranks, in their order.
RingNumbers numbers_of_all(Communicator& ring, const RingNumbers& own) {
  const auto allocate = [](std::int64_t count) {
    return Tensor::allocate(nullptr, MemoryCategory::comm, {count}, DType::fp64, false);
  };
  const auto count = static_cast<std::int64_t>(own.size());
  const Tensor mine = allocate(count);
  const Tensor all = allocate(count * ring.size());
  store(mine, own);
  ring.all_gather(all, mine, {.label = "rows of a ring"}).wait();
  return values_of(all);
}

// Queries, keys and values of all rows of a ring. Rows count through ranks; see SequenceShares.
class RingRows {
 public:
  RingRows(Communicator& ring, const AttentionShape& shape, const QkvHeads& qkv, int ahead)
      : ring_(ring),
        shape_(shape),
        ahead_(ahead),
        share_(shape.seq_len / shape.queries.parts),
        own_(shape.batch * share_ * shape.queries.count),
        q_(numbers_of_all(ring, ring_rows_of(qkv.q, own_, shape.q_row()))),
        k_(numbers_of_all(ring, ring_rows_of(qkv.k, own_, shape.k_row()))),
        v_(numbers_of_all(ring, ring_rows_of(qkv.v, own_, shape.v_row()))) {}

  [[nodiscard]] std::int64_t first() const { return ring_.rank() * own_; }
  [[nodiscard]] std::int64_t end() const { return first() + own_; }
  [[nodiscard]] std::int64_t all() const { return ring_.size() * own_; }
  [[nodiscard]] RingNumbers of_each(const RingNumbers& own) const {
    return numbers_of_all(ring_, own);
  }
  // Index in log_sum_exp.
  [[nodiscard]] std::int64_t statistic(std::int64_t row, std::int64_t head) const {
    const std::int64_t here = row - first();
    return (here / share_ * shape_.num_heads + head) * share_ + here % share_;
  }

  [[nodiscard]] bool sees(std::int64_t query, std::int64_t key) const {
    if (sample_of(query) != sample_of(key)) return false;
    const bool is_other = query / own_ != key / own_;
    return shape_.mask.shows(position_of(query) + (is_other ? ahead_ : 0), position_of(key));
  }
  [[nodiscard]] double score(std::int64_t query, std::int64_t key, std::int64_t head) const {
    double sum = 0.0;
    for (std::int64_t i = 0; i < shape_.head_size; ++i) sum += q(query, head, i) * k(key, head, i);
    const double cap = shape_.score_cap;
    return cap > 0.0 ? cap * std::tanh(sum * scale() / cap) : sum * scale();
  }
  // The derivative of a score by the product of a query and a key.
  [[nodiscard]] double slope(double score) const {
    const double cap = shape_.score_cap;
    return cap > 0.0 ? scale() * (1.0 - score / cap * (score / cap)) : scale();
  }
  [[nodiscard]] double q(std::int64_t row, std::int64_t head, std::int64_t i) const {
    return q_[to_size(row * shape_.q_row() + head * shape_.head_size + i)];
  }
  [[nodiscard]] double k(std::int64_t row, std::int64_t head, std::int64_t i) const {
    return k_[to_size(row * shape_.k_row() + group_of(head) * shape_.head_size + i)];
  }
  [[nodiscard]] double v(std::int64_t row, std::int64_t head, std::int64_t i) const {
    return v_[to_size(row * shape_.v_row() + group_of(head) * shape_.value_width() + i)];
  }
  [[nodiscard]] std::int64_t group_of(std::int64_t head) const {
    return head / (shape_.num_heads / shape_.num_groups);
  }

 private:
  [[nodiscard]] double scale() const {
    const auto size = static_cast<double>(shape_.head_size);
    return shape_.scale > 0.0 ? shape_.scale : 1.0 / std::sqrt(size);
  }
  [[nodiscard]] std::int64_t sample_of(std::int64_t row) const {
    return row % own_ / share_ % shape_.batch;
  }
  [[nodiscard]] std::int64_t position_of(std::int64_t row) const {
    const std::int64_t shares_before = row % own_ / share_ / shape_.batch;
    const auto first = static_cast<int>(row / own_ * shape_.queries.count + shares_before);
    return SequencePart{first, shape_.queries.parts}.position_of(row % share_, shape_.seq_len);
  }

  Communicator& ring_;
  const AttentionShape& shape_;
  std::int64_t ahead_;
  std::int64_t share_;
  std::int64_t own_;  // Rows of a rank.
  RingNumbers q_;
  RingNumbers k_;
  RingNumbers v_;
};

template <int kAhead>
AttentionOutput shifted_forward(Runtime& runtime, Communicator& ring, const AttentionShape& shape,
                                const QkvHeads& qkv) {
  const RingRows rows(ring, shape, qkv, kAhead);
  const DType dtype = qkv.q.tensor.dtype();
  AttentionOutput out = allocate_attention(runtime, shape, dtype, dtype);
  for (std::int64_t query = rows.first(); query < rows.end(); ++query) {
    for (std::int64_t head = 0; head < shape.num_heads; ++head) {
      double sum = 0.0;
      RingNumbers y(to_size(shape.value_width()), 0.0);
      for (std::int64_t key = 0; key < rows.all(); ++key) {
        if (!rows.sees(query, key)) continue;
        const double weight = std::exp(rows.score(query, key, head));
        sum += weight;
        for (std::size_t i = 0; i < y.size(); ++i) {
          y[i] += weight * rows.v(key, head, static_cast<std::int64_t>(i));
        }
      }
      out.log_sum_exp.set(rows.statistic(query, head), std::log(sum));
      const std::int64_t at = (query - rows.first()) * shape.y_row() + head * shape.value_width();
      for (std::size_t i = 0; i < y.size(); ++i) {
        out.y.set(at + static_cast<std::int64_t>(i), y[i] / sum);
      }
    }
  }
  return out;
}

// RingNumbers of queries that backward needs: dy, its product with y, and what scores are divided
// by.
struct QuerySlopes {
  QuerySlopes(const RingRows& rows, const AttentionShape& shape, const AttentionOutput& forward,
              const Tensor& dy)
      : shape_(shape) {
    RingNumbers dots;
    RingNumbers norms;
    const RingNumbers own = values_of(dy);
    for (std::int64_t row = rows.first(); row < rows.end(); ++row) {
      for (std::int64_t head = 0; head < shape.num_heads; ++head) {
        const std::int64_t at = (row - rows.first()) * shape.y_row() + head * shape.value_width();
        double dot = 0.0;
        for (std::int64_t i = 0; i < shape.value_width(); ++i) {
          dot += own[to_size(at + i)] * forward.y.get(at + i);
        }
        dots.push_back(dot);
        norms.push_back(forward.log_sum_exp.get(rows.statistic(row, head)));
      }
    }
    dy_ = rows.of_each(own);
    dots_ = rows.of_each(dots);
    norms_ = rows.of_each(norms);
  }

  [[nodiscard]] double dy(std::int64_t row, std::int64_t head, std::int64_t i) const {
    return dy_[to_size(row * shape_.y_row() + head * shape_.value_width() + i)];
  }
  [[nodiscard]] double weight(const RingRows& rows, std::int64_t query, std::int64_t key,
                              std::int64_t head) const {
    return std::exp(rows.score(query, key, head) - norms_[at(query, head)]);
  }
  // The gradient of the product of a query and a key.
  [[nodiscard]] double of_product(const RingRows& rows, std::int64_t query, std::int64_t key,
                                  std::int64_t head) const {
    double d_weight = -dots_[at(query, head)];
    for (std::int64_t i = 0; i < shape_.value_width(); ++i) {
      d_weight += dy(query, head, i) * rows.v(key, head, i);
    }
    return weight(rows, query, key, head) * d_weight * rows.slope(rows.score(query, key, head));
  }

 private:
  [[nodiscard]] std::size_t at(std::int64_t row, std::int64_t head) const {
    return to_size(row * shape_.num_heads + head);
  }

  const AttentionShape& shape_;
  RingNumbers dy_;
  RingNumbers dots_;
  RingNumbers norms_;
};

// Adds `factor` times `of(i)` to `width` numbers of a head.
template <class Of>
void add_to_head(const Heads& to, std::int64_t row, std::int64_t head, std::int64_t width,
                 double factor, const Of& of) {
  const std::int64_t at = row * to.row_stride + to.first + head * width;
  for (std::int64_t i = 0; i < width; ++i)
    to.tensor.set(at + i, to.tensor.get(at + i) + factor * of(i));
}

void clear_heads(const Heads& heads, std::int64_t rows, std::int64_t width) {
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < width; ++i) {
      heads.tensor.set(row * heads.row_stride + heads.first + i, 0.0);
    }
  }
}

template <int kAhead>
void shifted_backward(Runtime& /*runtime*/, Communicator& ring, const AttentionShape& shape,
                      const QkvHeads& qkv, const AttentionOutput& out, const Tensor& dy,
                      const QkvHeads& gradients) {
  const RingRows rows(ring, shape, qkv, kAhead);
  const QuerySlopes slopes(rows, shape, out, dy);
  const std::int64_t own = rows.end() - rows.first();
  clear_heads(gradients.q, own, shape.q_row());
  clear_heads(gradients.k, own, shape.k_row());
  clear_heads(gradients.v, own, shape.v_row());
  // Each pair of which one row is this rank's.
  for (std::int64_t query = 0; query < rows.all(); ++query) {
    for (std::int64_t key = 0; key < rows.all(); ++key) {
      const bool has_query = query >= rows.first() && query < rows.end();
      const bool has_key = key >= rows.first() && key < rows.end();
      if ((!has_query && !has_key) || !rows.sees(query, key)) continue;
      for (std::int64_t head = 0; head < shape.num_heads; ++head) {
        const std::int64_t group = rows.group_of(head);
        const double d_product = slopes.of_product(rows, query, key, head);
        if (has_query) {
          add_to_head(gradients.q, query - rows.first(), head, shape.head_size, d_product,
                      [&](std::int64_t i) { return rows.k(key, head, i); });
        }
        if (!has_key) continue;
        add_to_head(gradients.k, key - rows.first(), group, shape.head_size, d_product,
                    [&](std::int64_t i) { return rows.q(query, head, i); });
        add_to_head(gradients.v, key - rows.first(), group, shape.value_width(),
                    slopes.weight(rows, query, key, head),
                    [&](std::int64_t i) { return slopes.dy(query, head, i); });
      }
    }
  }
}

// A rank's model, which attends by another row.
class OtherAttention final : public ModelWrapper {
 public:
  OtherAttention(const SyncOfRank& of, const ContextAttentionRow& row)
      : ModelWrapper(*of.plan.part(of.mesh.place()).model),
        context_(std::make_unique<ContextParallel>(*of.mesh.cp_group(), row,
                                                   of.plan.options().model.ulysses_degree)) {}
  Tensor forward(int module, const ModelContext& context, const Tensor& input, const Batch& batch,
                 Saved& saved) const override {
    return inner_.forward(module, other(context), input, batch, saved);
  }
  Tensor backward(int module, const ModelContext& context, const Tensor& output_gradient,
                  const Batch& batch, Saved& saved) const override {
    return inner_.backward(module, other(context), output_gradient, batch, saved);
  }
  void run_weight_gradients(WeightGradientQueue& queue,
                            const ModelContext& context) const override {
    inner_.run_weight_gradients(queue, other(context));
  }

 private:
  [[nodiscard]] ModelContext other(const ModelContext& context) const {
    ModelContext changed = context;
    changed.parallel.context = context_.get();
    return changed;
  }

  std::unique_ptr<ContextParallel> context_;
};

template <int kAhead>
Result run_with_mask_ahead(const Scenario& scenario) {
  ContextAttentionRow row = context_attention_row(scenario.parallelism.cp_attention);
  row.forward = shifted_forward<kAhead>;
  row.backward = shifted_backward<kAhead>;
  return run_with_model(
      scenario, [&](const SyncOfRank& of) { return std::make_unique<OtherAttention>(of, row); });
}

}  // namespace

Result run_with_shifted_mask(const Scenario& scenario) { return run_with_mask_ahead<1>(scenario); }

Result run_with_plain_mask(const Scenario& scenario) { return run_with_mask_ahead<0>(scenario); }

}  // namespace shardsim::test

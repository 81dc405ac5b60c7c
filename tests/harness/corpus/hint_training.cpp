#include <cmath>
#include <memory>
#include <numeric>

#include "tests/harness/corpus/hint_rows.hpp"
#include "tests/harness/corpus/program.hpp"

// Least squares over data-parallel ranks: samples are cut, so are momentum and updates; gradients
// are reduced in one bucket, and weights are gathered. One mistake at a time.
namespace shardsim::corpus {

namespace {

constexpr std::int64_t kRows = 48;
constexpr std::int64_t kHintInputs = 6;
constexpr std::int64_t kBiases = 2;
constexpr std::int64_t kFlat = kHintInputs + kBiases;  // The weight, then the bias.
constexpr double kLearningRate = 0.25;
constexpr double kMomentum = 0.5;
constexpr std::int64_t kShares[] = {1, 2, 5};

// A rank's training state. One step after the other fills it.
class LinearRank {
 public:
  LinearRank(RankContext& context, const Plant& plant, NumberBug bug)
      : context_(context), plant_(plant), bug_(bug) {
    const int rank = context.rank();
    const int size = context.size();
    rows_ = is_uneven() ? Part{shares_of(rank), shares_of(rank + 1)} : part_of(kRows, rank, size);
    if (is_uneven()) context.share_of_batch(rows_.count());
    shard_ = part_of(kFlat, rank, size);
    flat_ = context.tensor(kFlat, [&](std::int64_t i) { return context.draw("initial", i); });
    bucket_ = context.tensor(kFlat);
    last_bucket_ = context.tensor(kFlat);
    gathered_ = context.tensor(kFlat);
    master_ =
        context.tensor(shard_.count(), [&](std::int64_t i) { return flat_.get(shard_.first + i); });
    momentum_ = context.tensor(shard_.count());
    prediction_ = context.tensor(rows_.count());
    if (has(NumberBug::norm_without_last) || has(NumberBug::gradient_last_alone)) {
      some_ = context.world().split(is_last(context) ? 1 : 0, rank, "some");
    }
  }

  void step(int step) {
    step_ = step;
    hidden();
    predict();
    loss();
    gradients();
    norm();
    update();
    gather();
  }

 private:
  [[nodiscard]] bool has(NumberBug bug) const { return plant_.in(context_) && bug_ == bug; }
  [[nodiscard]] bool among(NumberBug first, NumberBug last) const {
    return first <= bug_ && bug_ <= last;
  }
  // Whether the row of this bug has ranks with different parts of the batch.
  [[nodiscard]] bool is_uneven() const {
    return bug_ == NumberBug::loss_mean_of_means || bug_ == NumberBug::loss_doubled_uneven ||
           bug_ == NumberBug::gradient_doubled_uneven || bug_ == NumberBug::gradient_mean_of_means;
  }
  [[nodiscard]] std::int64_t shares_of(int ranks) const {
    std::int64_t before = 0;
    std::int64_t all = 0;
    for (int rank = 0; rank < context_.size(); ++rank) {
      const std::int64_t share = kShares[rank % std::ssize(kShares)];
      if (rank < ranks) before += share;
      all += share;
    }
    return kRows * before / all;
  }
  [[nodiscard]] double x(std::int64_t row, std::int64_t input) const {
    return row < kRows ? context_.draw("x", row * kHintInputs + input) : 0.0;
  }
  [[nodiscard]] double target(std::int64_t row) const { return context_.draw("target", row); }
  [[nodiscard]] double product(std::int64_t row, std::int64_t first, std::int64_t last) const {
    double sum = 0.0;
    for (std::int64_t i = first; i < last; ++i) sum += x(row, i) * flat_.get(i);
    return sum;
  }
  double sum_of(double value, ReduceOp op = ReduceOp::sum, Communicator* group = nullptr) {
    const Tensor sum = context_.tensor(1, [&](std::int64_t) { return value; });
    const CallOptions scalar = {.label = "scalar", .traffic = TrafficClass::scalar};
    (group == nullptr ? context_.world() : *group).all_reduce(sum, op, scalar).wait();
    return sum.get(0);
  }

  // Row-parallel: each rank has some inputs of the first rows.
  void hidden() {
    const Part inputs = my_part(kHintInputs, context_);
    const Tensor hidden = context_.tensor(
        kBiases, [&](std::int64_t row) { return product(row, inputs.first, inputs.last); });
    if (!has(NumberBug::output_not_reduced)) {
      context_.world().all_reduce(hidden, ReduceOp::sum).wait();
    }
    if (bug_ == NumberBug::output_not_reduced) plant_.next_line();
    context_.show(Shown::output, "hidden", hidden, {.step = step_});
  }

  [[nodiscard]] double predicted(std::int64_t row) const {
    return product(row, 0, kHintInputs) + flat_.get(kHintInputs + row % kBiases);
  }

  void predict() {
    const std::int64_t count = rows_.count();
    const bool keeps = has(NumberBug::output_stale) && step_ > 0;
    for (std::int64_t i = 0; i < count && !keeps; ++i) {
      std::int64_t row = rows_.first + i;
      if (has(NumberBug::output_shifted)) row = (row + 1) % kRows;
      const bool late = has(NumberBug::output_shifted_on_last) && is_last(context_);
      if (late) row = rows_.first + (i + 1) % count;
      if (has(NumberBug::output_halves)) row = rows_.first + (i + count / 2) % count;
      double value = predicted(row);
      if (has(NumberBug::output_scaled)) value *= context_.size();
      if (has(NumberBug::output_negated)) value = -value;
      prediction_.set(i, value);
    }
    if (among(NumberBug::output_scaled, NumberBug::output_halves)) plant_.next_line();
    context_.show(Shown::output, "prediction", prediction_,
                  {.first = rows_.first, .whole = kRows, .step = step_});
  }

  [[nodiscard]] double error(std::int64_t row) const {
    return prediction_.get(row - rows_.first) - target(row);
  }
  // Divides a sum over this rank's samples.
  [[nodiscard]] double samples(NumberBug mean_of_means) const {
    return static_cast<double>(has(mean_of_means) ? rows_.count() * context_.size() : kRows);
  }

  void loss() {
    double mine = 0.0;
    for (std::int64_t row = rows_.first; row < rows_.last; ++row) {
      mine += error(row) * error(row) / (2.0 * samples(NumberBug::loss_mean_of_means));
    }
    if (has(NumberBug::loss_without_last) && is_last(context_)) mine = 0.0;
    double loss = has(NumberBug::loss_local) ? mine : sum_of(mine);
    const double now = loss;
    if (has(NumberBug::loss_times_ranks)) loss *= context_.size();
    if (has(NumberBug::loss_over_ranks)) loss /= context_.size();
    if (has(NumberBug::loss_doubled) || has(NumberBug::loss_doubled_uneven)) loss *= 2.0;
    if (has(NumberBug::loss_negated)) loss = -loss;
    if (has(NumberBug::loss_stale) && step_ > 0) loss = last_loss_;
    last_loss_ = now;
    if (among(NumberBug::loss_times_ranks, NumberBug::loss_without_last)) plant_.next_line();
    context_.show(Shown::output, "loss", loss, {.step = step_});
  }

  [[nodiscard]] Tensor my_gradients() {
    const Tensor mine = context_.tensor(kFlat);
    const double scale = 1.0 / samples(NumberBug::gradient_mean_of_means);
    for (std::int64_t row = rows_.first; row < rows_.last; ++row) {
      const auto add = [&](std::int64_t at, double value) {
        mine.set(at, mine.get(at) + error(row) * value * scale);
      };
      for (std::int64_t i = 0; i < kHintInputs; ++i) add(i, x(row, i));
      add(kHintInputs + row % kBiases, 1.0);
    }
    double weight = 1.0;
    if (has(NumberBug::gradient_without_last) && is_last(context_)) weight = 0.0;
    if (has(NumberBug::gradient_last_twice) && is_last(context_)) weight = 2.0;
    if (has(NumberBug::gradient_negated)) weight = -1.0;
    if (has(NumberBug::gradient_times_ranks)) weight = context_.size();
    if (has(NumberBug::gradient_doubled_uneven)) weight = 2.0;
    for (std::int64_t i = 0; i < kFlat; ++i) mine.set(i, weight * mine.get(i));
    return mine;
  }

  // Copies what was reduced from the bucket to the gradients that the optimizer takes.
  [[nodiscard]] std::int64_t place_in_bucket(std::int64_t at) const {
    if (has(NumberBug::gradient_shifted)) return (at + 1) % kFlat;
    if (has(NumberBug::gradient_halves) && at < kHintInputs)
      return (at + kHintInputs / 2) % kHintInputs;
    return at;
  }

  void gradients() {
    const Tensor reduced = my_gradients();
    Communicator& group = has(NumberBug::gradient_last_alone) ? *some_ : context_.world();
    group.all_reduce(reduced, ReduceOp::sum, {.label = "gradients"}).wait();
    const bool is_late = has(NumberBug::gradient_stale) && step_ > 0;
    copy(is_late ? last_bucket_ : reduced);
    last_bucket_ = reduced;
    show_gradients();
  }
  void copy(const Tensor& reduced) const {
    for (std::int64_t i = 0; i < kFlat; ++i) {
      const bool doubled = has(NumberBug::gradient_bias_doubled) && i >= kHintInputs;
      bucket_.set(i, (doubled ? 2.0 : 1.0) * reduced.get(place_in_bucket(i)));
    }
  }
  void show_gradients() {
    const Tensor weight =
        context_.tensor(kHintInputs, [&](std::int64_t i) { return bucket_.get(i); });
    const Tensor bias =
        context_.tensor(kBiases, [&](std::int64_t i) { return bucket_.get(kHintInputs + i); });
    const bool is_of_bias = bug_ == NumberBug::gradient_bias_doubled;
    const bool is_mine = among(NumberBug::gradient_times_ranks, NumberBug::gradient_last_twice);
    if (is_mine && !is_of_bias) plant_.next_line();
    context_.show(Shown::gradient, "weight", weight, {.step = step_});
    if (is_of_bias) plant_.next_line();
    context_.show(Shown::gradient, "bias", bias, {.step = step_});
  }

  [[nodiscard]] double squares_of(std::int64_t first, std::int64_t last) const {
    double sum = 0.0;
    for (std::int64_t i = first; i < last; ++i) sum += bucket_.get(i) * bucket_.get(i);
    return sum;
  }

  void norm() {
    const std::int64_t end = has(NumberBug::norm_without_bias) ? kHintInputs : kFlat;
    double squares = squares_of(shard_.first, std::max(shard_.first, std::min(shard_.last, end)));
    if (has(NumberBug::norm_of_copies)) squares = squares_of(0, kFlat);
    if (!has(NumberBug::norm_local)) {
      squares = sum_of(squares, has(NumberBug::norm_averaged) ? ReduceOp::avg : ReduceOp::sum,
                       has(NumberBug::norm_without_last) ? some_.get() : nullptr);
    }
    double norm = has(NumberBug::norm_squared) ? squares : std::sqrt(squares);
    const double now = norm;
    if (has(NumberBug::norm_stale) && step_ > 0) norm = last_norm_;
    last_norm_ = now;
    if (among(NumberBug::norm_local, NumberBug::norm_without_last)) plant_.next_line();
    context_.show(Shown::norm, "gradient norm", norm, {.step = step_});
  }

  void update() {
    if (has(NumberBug::parameter_stale)) collect();
    const bool skips = has(NumberBug::parameter_part_stale) && is_last(context_) && step_ > 0;
    double rate = kLearningRate;
    if (has(NumberBug::parameter_update_negated)) rate = -rate;
    if (has(NumberBug::parameter_update_scaled)) rate *= context_.size();
    for (std::int64_t i = 0; i < shard_.count(); ++i) {
      momentum_.set(i, kMomentum * momentum_.get(i) + bucket_.get(shard_.first + i));
      if (!skips) master_.set(i, master_.get(i) - rate * momentum_.get(i));
    }
    context_.show(Shown::optimizer_state, "momentum", momentum_,
                  {.first = shard_.first, .whole = kFlat, .step = step_});
    if (!has(NumberBug::parameter_stale)) collect();
  }

  // All ranks' shards of the weights, as they are now.
  void collect() {
    std::vector<std::int64_t> counts;
    for (int rank = 0; rank < context_.size(); ++rank) {
      counts.push_back(part_of(kFlat, rank, context_.size()).count());
    }
    context_.world().all_gather(gathered_, master_, {.counts = counts}).wait();
  }

  void gather() {
    for (std::int64_t i = 0; i < kFlat; ++i) {
      std::int64_t from = i;
      if (has(NumberBug::parameter_shifted)) from = (i + 1) % kFlat;
      if (has(NumberBug::parameter_halves)) from = (i + kFlat / 2) % kFlat;
      flat_.set(i, gathered_.get(from));
    }
    if (among(NumberBug::parameter_stale, NumberBug::parameter_part_stale)) plant_.next_line();
    context_.show(Shown::parameter, "flat", flat_, {.step = step_});
  }

  RankContext& context_;
  const Plant& plant_;
  NumberBug bug_;
  int step_ = 0;
  Part rows_;
  Part shard_;
  Tensor flat_;    // Weight and bias, as this rank has them.
  Tensor bucket_;  // Their gradients.
  Tensor last_bucket_;
  Tensor master_;    // This rank's shard of the weights.
  Tensor gathered_;  // All ranks' shards.
  Tensor momentum_;
  Tensor prediction_;
  double last_loss_ = 0.0;
  double last_norm_ = 0.0;
  std::unique_ptr<Communicator> some_;  // All but the last rank, or the last one.
};

}  // namespace

void train_linear(RankContext& context, const Plant& plant, NumberBug bug) {
  LinearRank rank(context, plant, bug);
  for (int step = 0; step < context.steps(); ++step) rank.step(step);
}

std::string file_of_training() { return CallSite::here().file; }

}  // namespace shardsim::corpus

#include "tests/harness/corpus/corpus_row.hpp"
#include "tests/harness/corpus/program.hpp"

// A pipeline of 8 layers y = a x + 1, spread over the ranks, and 4 microbatches.
namespace shardsim::corpus {

namespace {

constexpr std::int64_t kLayers = 8;
constexpr int kMicrobatches = 4;
constexpr std::int64_t kWidth = 3;
constexpr int kVariants = 3;

enum class Mistake : std::uint8_t { none, stash_swapped, last_dropped };

class Stage {
 public:
  Stage(RankContext& context, int step)
      : context_(context),
        step_(step),
        layers_(my_part(kLayers, context)),
        stash_(static_cast<std::size_t>(kMicrobatches)) {
    for (std::int64_t layer = layers_.first; layer < layers_.last; ++layer) {
      gradients_.push_back(context.tensor(1));
    }
  }

  void forward(int microbatch) {
    Tensor x = context_.tensor(kWidth, [&](std::int64_t i) { return drawn("x", microbatch, i); });
    if (context_.rank() > 0) context_.world().recv(x, context_.rank() - 1).wait();
    for (std::int64_t layer = layers_.first; layer < layers_.last; ++layer) {
      stash_[static_cast<std::size_t>(microbatch)].push_back(x);
      x = scaled(x, layer, 1.0);
    }
    if (!is_last(context_)) context_.world().send(x, context_.rank() + 1).wait();
  }

  void backward(int microbatch, Mistake mistake) {
    Tensor dy = context_.tensor(kWidth, [&](std::int64_t i) { return drawn("dy", microbatch, i); });
    if (!is_last(context_)) context_.world().recv(dy, context_.rank() + 1).wait();
    // Microbatches 2 and 3 are taken for each other.
    const bool swapped = mistake == Mistake::stash_swapped && microbatch >= 2;
    const auto stashed = static_cast<std::size_t>(swapped ? microbatch ^ 1 : microbatch);
    const bool dropped = mistake == Mistake::last_dropped && microbatch == kMicrobatches - 1;
    for (std::int64_t layer = layers_.last; layer-- > layers_.first;) {
      const auto index = static_cast<std::size_t>(layer - layers_.first);
      if (!dropped) add_product(gradients_[index], stash_[stashed][index], dy);
      dy = scaled(dy, layer, 0.0);
    }
    if (context_.rank() > 0) context_.world().send(dy, context_.rank() - 1).wait();
  }

  /// Shows the gradients added up after this microbatch.
  void show(int microbatch, const Plant& plant) {
    for (std::int64_t layer = layers_.first; layer < layers_.last; ++layer) {
      const Tensor& gradient = gradients_[static_cast<std::size_t>(layer - layers_.first)];
      const std::string name = "layer " + std::to_string(layer);
      const ShowOptions options = {.step = step_, .microbatch = microbatch};
      plant.next_line();
      context_.show(Shown::gradient, name, gradient, options);
    }
  }

 private:
  [[nodiscard]] double drawn(const char* name, int microbatch, std::int64_t i) const {
    return whole_number(context_, name, (step_ * kMicrobatches + microbatch) * kWidth + i);
  }
  Tensor scaled(const Tensor& x, std::int64_t layer, double bias) {
    const auto weight = static_cast<double>(1 + layer % kVariants);
    return context_.tensor(x.numel(), [&](std::int64_t i) { return weight * x.get(i) + bias; });
  }
  static void add_product(const Tensor& sum, const Tensor& x, const Tensor& dy) {
    for (std::int64_t i = 0; i < x.numel(); ++i) sum.set(0, sum.get(0) + x.get(i) * dy.get(i));
  }

  RankContext& context_;
  int step_;
  Part layers_;
  std::vector<std::vector<Tensor>> stash_;  // By microbatch and layer.
  std::vector<Tensor> gradients_;
};

void train(RankContext& context, const Plant& plant, Mistake mistake) {
  const bool wrong = plant.in(context) && is_middle(context);
  for (int step = 0; step < context.steps(); ++step) {
    Stage stage(context, step);
    for (int i = 0; i < kMicrobatches; ++i) stage.forward(i);
    for (int i = 0; i < kMicrobatches; ++i) {
      stage.backward(i, wrong ? mistake : Mistake::none);
      stage.show(i, plant);
    }
  }
}

void stash_swapped(RankContext& context, const Plant& plant) {
  train(context, plant, Mistake::stash_swapped);
}

void last_dropped(RankContext& context, const Plant& plant) {
  train(context, plant, Mistake::last_dropped);
}

}  // namespace

std::vector<Row> pipeline_rows() {
  return in_file({
      {"S11", "stashes of two microbatches swapped", stash_swapped, "GRAD_DIFF", middle(),
       Who::first, "microbatch 2"},
      {"S11", "last microbatch dropped", last_dropped, "GRAD_DIFF", middle(), Who::first,
       "microbatch 3"},
  });
}

}  // namespace shardsim::corpus

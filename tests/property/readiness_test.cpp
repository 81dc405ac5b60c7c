#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/random.hpp"

#include "strategies/model/model_wrapper.hpp"

#include "tests/property/check_property.hpp"
#include "tests/property/random_case.hpp"

// Ranks may report gradients in different orders, or not at all: what they communicate, and what
// comes out, must not depend on it.
namespace shardsim::test {

namespace {

// Parameters that withhold some reports and gradients from the strategy, and reorder the others.
class Interposed final : public Parameters {
 public:
  Interposed(Parameters& inner, Runtime& runtime, const Model& model, const std::set<int>& unused)
      : inner_(inner), runtime_(runtime), model_(model), unused_(unused) {}

  Tensor weight(int index) override { return inner_.weight(index); }
  Tensor gradient(int index) override {
    if (!unused_.contains(index)) return inner_.gradient(index);
    const Shape& shape = model_.parameters()[static_cast<std::size_t>(index)].shape;
    return runtime_.allocate(MemoryCategory::activations, shape, DType::fp64);
  }
  void gradient_ready(int index) override {
    if (!unused_.contains(index)) ready.push_back(index);
  }

  std::vector<int> ready;

 private:
  Parameters& inner_;
  Runtime& runtime_;
  const Model& model_;
  const std::set<int>& unused_;
};

// A model whose backward reports the gradients of each module, or of all modules at the very end,
// in an order of its own, and never those of `unused`.
class ReorderedModel final : public ModelWrapper {
 public:
  ReorderedModel(const Model& inner, std::uint64_t seed, bool at_the_end, std::set<int> unused)
      : ModelWrapper(inner),
        random_(seed, "order"),
        at_the_end_(at_the_end),
        unused_(std::move(unused)) {}

  Tensor backward(int module, const ModelContext& context, const Tensor& output_gradient,
                  const Batch& batch, Saved& saved) const override {
    Interposed interposed(context.parameters, context.runtime, inner_, unused_);
    Tensor gradient =
        inner_.backward(module, context.with(interposed), output_gradient, batch, saved);
    held_.insert(held_.end(), interposed.ready.begin(), interposed.ready.end());
    if (module > 0 && at_the_end_) return gradient;
    for (std::size_t left = held_.size(); left > 0; --left) {
      std::swap(held_[left - 1], held_[random_.below(draws_++, left)]);
      context.parameters.gradient_ready(held_[left - 1]);
    }
    held_.clear();
    return gradient;
  }

 private:
  RandomStream random_;
  bool at_the_end_;
  std::set<int> unused_;
  mutable std::vector<int> held_;  // One instance per rank.
  mutable std::uint64_t draws_ = 0;
};

// "dp: bucket 0", ... in the order of issue, all streams apart.
std::vector<std::string> issued(const RankTrace& trace) {
  std::vector<std::string> calls;
  for (std::size_t track = 1; track < trace.tracks.size(); ++track) {
    for (const TraceSlice& slice : trace.tracks[track].slices) {
      calls.push_back(trace.tracks[track].name + ": " + slice.name + " " + slice.label);
    }
  }
  return calls;
}

std::unique_ptr<Model> whole_model_of(const TrainingCase& c) {
  ModelOptions options = c.model;
  options.sequence_parallel = false;  // Only tensor-parallel ranks have it.
  return make_model(options);
}

// Adds the gradients of the samples of each data-parallel rank, but those of parameters it does not
// use.
Values gradients_without(const TrainingCase& c, const std::set<int>& unused, int first_rank) {
  const std::unique_ptr<Model> model = whole_model_of(c);
  LocalRuntime runtime;
  WholeParameters sums(*model, runtime, c.training.seed, DType::fp64, DType::fp64);
  const std::int64_t samples = c.training.micro_batch_size;
  const std::int64_t targets = c.mesh.data_size() * samples * model->positions_per_sample();
  for (int rank = 0; rank < c.mesh.data_size(); ++rank) {
    const std::set<int> none;
    Interposed own(sums, runtime, *model, rank >= first_rank ? unused : none);
    Batch batch = model->make_batch(runtime, c.training.seed, rank * samples, samples, 0.0);
    batch.loss_scale = 1.0 / static_cast<double>(targets);
    std::vector<Saved> saved;
    run_forward(*model, runtime, own, batch, saved);
    run_backward(*model, runtime, own, batch, saved);
  }
  Values values;
  for (int i = 0; i < sums.size(); ++i) {
    values.emplace_back();
    const Tensor gradient = sums.gradient(i);
    for (std::int64_t k = 0; k < gradient.numel(); ++k) values.back().push_back(gradient.get(k));
  }
  return values;
}

// Each rank in an order of its own.
auto reordered(std::uint64_t seed, bool at_the_end) {
  return [=](const ModelPart& part, int rank) {
    return std::make_unique<ReorderedModel>(*part.model, seed + static_cast<std::uint64_t>(rank),
                                            at_the_end, std::set<int>{});
  };
}

// Its own numbers of the parameters that a rank has of `whole`.
std::set<int> local_numbers(const ModelPart& part, const std::set<int>& whole) {
  if (part.whole_index.empty()) return whole;
  std::set<int> local;
  for (std::size_t i = 0; i < part.whole_index.size(); ++i) {
    if (whole.contains(part.whole_index[i])) local.insert(static_cast<int>(i));
  }
  return local;
}

// Reports all gradients but those of some parameters, which data-parallel ranks from the
// `first_rank`th on do not use, and checks that these count as zero.
void expect_zero_where_unused(TrainingCase c) {
  c.training.steps = 1;
  c.training.num_microbatches = 1;
  c.training.ignore_fraction = 0.0;
  const auto count = static_cast<int>(whole_model_of(c)->parameters().size());
  const std::set<int> unused = *rc::gen::container<std::set<int>>(rc::gen::inRange(0, count));
  const int first_rank = *rc::gen::inRange(0, c.mesh.data_size() + 1);  // 0: no rank uses them.
  c.model_of_rank = [&](const ModelPart& part, int) -> std::unique_ptr<Model> {
    const MeshPlace& place = part.place;
    if (place.dp_replicate * c.mesh.dp_shard + place.dp_shard < first_rank) return nullptr;
    return std::make_unique<ReorderedModel>(*part.model, 1, false, local_numbers(part, unused));
  };
  RC_LOG() << describe(c) << ", " << unused.size() << " unused from rank " << first_rank << "\n";
  const StepRecord step = merge(c, run(c), 0);
  StepRecord expected = step;
  expected.values["gradient"] = gradients_without(c, unused, first_rank);
  const WorstError worst = worst_error(step, expected);
  RC_LOG() << worst.value << " at " << worst.where << "\n";
  RC_ASSERT(worst.value <= 1e-9);
}

}  // namespace

TEST_CASE("P22: ranks that become ready in different orders issue the same calls") {
  check_property(150, [] {
    TrainingCase c = draw_case();
    const TrainingResult in_order = run(c);
    const bool at_the_end = *rc::gen::arbitrary<bool>();
    const auto seed = *rc::gen::inRange<std::uint64_t>(0, 1000);
    TrainingCase shuffled = c;
    shuffled.model_of_rank = reordered(seed, at_the_end);
    for (int rank = 0; rank < c.mesh.size(); ++rank) shuffled.world.traced_ranks.push_back(rank);
    RC_LOG() << describe(c) << "\n";
    const TrainingResult result = run(shuffled);
    for (const RankTrace& trace : result.traces) {
      RC_ASSERT(issued(trace) == issued(result.traces.front()));
    }
    for (std::size_t step = 0; step < static_cast<std::size_t>(c.training.steps); ++step) {
      RC_ASSERT(first_difference(merge(c, in_order, step), merge(shuffled, result, step)).empty());
    }
  });
}

// Differences in order or size between the members of a group are reported, so running is the test.
TEST_CASE("P22: so do ranks of tensor and pipeline parallelism, and change no bit") {
  check_property(60, [] {
    const TrainingCase c = draw_cut_case();
    TrainingCase shuffled = c;
    shuffled.model_of_rank = reordered(*rc::gen::inRange<std::uint64_t>(0, 1000), false);
    RC_LOG() << describe(c) << "\n";
    const TrainingResult in_order = run(c);
    const TrainingResult result = run(shuffled);
    for (std::size_t step = 0; step < static_cast<std::size_t>(c.training.steps); ++step) {
      RC_ASSERT(first_difference(merge(c, in_order, step), merge(shuffled, result, step)).empty());
    }
  });
}

TEST_CASE("P23: parameters that some ranks, or all, never report count as zero and hang nobody") {
  check_property(150, [] { expect_zero_where_unused(draw_case()); });
  check_property(60, [] { expect_zero_where_unused(draw_cut_case()); });
}

}  // namespace shardsim::test

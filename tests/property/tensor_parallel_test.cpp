#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/property/check_property.hpp"
#include "tests/strategies/tensor_parallel_fixture.hpp"

// A model of any shape, cut into any number of parts that divides it, is the whole model.
namespace shardsim::test {
namespace {

struct RandomCase {
  ModelCase model;
  bool later = false;
};

std::int64_t between(std::int64_t low, std::int64_t high) {
  return *rc::gen::inRange<std::int64_t>(low, high + 1);
}

// Key and value heads that are fewer than the ranks, which have copies of them.
void draw_copies(ModelOptions& options, int t) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t groups = 1; groups < t; ++groups) {
    if (t % groups == 0) divisors.push_back(groups);
  }
  options.num_query_groups = *rc::gen::elementOf(divisors);
  options.query_key_norm = *rc::gen::element(QueryKeyNorm::none, QueryKeyNorm::per_head,
                                             QueryKeyNorm::whole, QueryKeyNorm::weightless);
  options.query_key_value_bias = *rc::gen::arbitrary<bool>();
  options.attention_output_gate = *rc::gen::arbitrary<bool>();
  options.value_head_dim = between(0, 3);
}

RandomCase random_case(bool copies) {
  RandomCase c;
  ModelOptions& options = c.model.options;
  const int t = copies ? *rc::gen::element(2, 3, 4, 6) : static_cast<int>(between(1, 5));
  c.model.size = t;
  c.model.sequence_parallel = t > 1 && *rc::gen::arbitrary<bool>();
  c.later = *rc::gen::arbitrary<bool>();
  options.family = copies ? "llama" : *rc::gen::element<std::string>("gpt2", "llama");
  options.dtype = DType::fp64;
  options.num_layers = between(1, 2);
  options.num_query_groups = t * between(1, 2);
  options.num_attention_heads = options.num_query_groups * between(1, 2);
  if (copies) draw_copies(options, t);
  options.hidden_size = options.num_attention_heads * 2 * between(1, 2);
  options.ffn_hidden_size = t * between(1, 4);
  options.vocab_size = between(2, 17);
  options.tied_embeddings = *rc::gen::arbitrary<bool>();
  options.seq_len = between(1, 5);
  options.max_position_embeddings = options.seq_len + between(0, 2);
  c.model.samples = between(1, 3);
  if (c.model.sequence_parallel) c.model.samples *= t;
  return c;
}

// Largest difference to the whole model of any gradient, of any part, and of the loss.
double worst_difference(const RandomCase& c) {
  WholeRunResult whole(c.model);
  const auto model = make_model(c.model.of_part());
  double worst = 0.0;
  // Gradients of which each rank has a share, by what they are of: all, or a part with copies.
  std::map<std::pair<int, int>, Tensor> sums;
  LocalRuntime local;
  run_ranks(c.model.size, [&](Runtime& runtime, Communicator& world) {
    PartRun part(c.model, *model, runtime, world, &whole.parameters);
    WeightGradientQueue queue;
    if (c.later) part.context.later = &queue;
    Tensor loss;
    part.forward([&](int, const Tensor& y) { loss = y; });
    part.backward([](int, const Tensor&) {});
    part.context.later = nullptr;
    queue.run(part.context);
    RC_ASSERT(part.parameters.ready() == whole.parameters.ready());
    worst = std::max(worst, relative_difference(loss, whole.outputs.back()));
    for (int i = 0; i < part.parameters.size(); ++i) {
      const ParameterSpec& spec = part.parameters.spec_of(i);
      const Tensor gradient = part.parameters.gradient(i);
      const int own = spec.is_split() ? PartIndex{.tensor = world.rank()}.of(spec) : 0;
      if (spec.sum_over_tp || spec.is_copied()) {
        const auto [sum, is_new] = sums.try_emplace({i, own});
        if (is_new) sum->second = zeros(spec.shape);
        add_in_place(local, gradient, sum->second);
        continue;
      }
      const Tensor expected = part_of(spec, own, whole.parameters.gradient(i));
      worst = std::max(worst, relative_difference(gradient, expected));
    }
  });
  for (const auto& [place, sum] : sums) {
    const ParameterSpec& spec = model->parameters()[static_cast<std::size_t>(place.first)];
    const Tensor expected = part_of(spec, place.second, whole.parameters.gradient(place.first));
    worst = std::max(worst, relative_difference(sum, expected));
  }
  return worst;
}

}  // namespace

TEST_CASE("any transformer in any number of parts is the whole one") {
  check_property(60, [] {
    // Some hundred roundings of 1e-16, made larger by norms of nearly constant rows of two to eight
    // elements (by up to 1 / sqrt(epsilon) = 300); a wrong term shows as 1e-2.
    RC_ASSERT(worst_difference(random_case(false)) < 1e-11);
  });
}

TEST_CASE("key and value heads that are fewer than the parts are the whole ones, in copies") {
  check_property(60, [] { RC_ASSERT(worst_difference(random_case(true)) < 1e-11); });
}

}  // namespace shardsim::test

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/strategies/block_pass.hpp"
#include "tests/strategies/context_parallel_fixture.hpp"
#include "tests/strategies/tensor_parallel_fixture.hpp"

// Gated DeltaNet and Mamba-2 as mixers: in parts they are what they are in one piece, and they have
// the parameters, the memory, the flops and the messages of their formulas.
namespace shardsim::test {
namespace {

// Sums in another order, passed on through two or three blocks with weights of order one. Norms of
// few elements enlarge a rounding some hundred times. A wrong term shows as 1e-2.
constexpr double kMixerRounding = 1e-11;
constexpr std::int64_t kMixerSamples = 2;

ModelOptions hybrid(const char* name) {
  ModelOptions options = small_model(name);
  options.seq_len = 8;
  return options;
}

// Sums gradients over ranks, or takes the parts that one of them has.
class GatheredGradients {
 public:
  explicit GatheredGradients(const Model& whole) {
    for (const ParameterSpec& spec : whole.parameters()) sums_.push_back(zeros(spec.shape));
  }
  void add(PartParameters& parameters, int part) {
    for (int i = 0; i < parameters.size(); ++i) {
      const ParameterSpec& spec = parameters.spec_of(i);
      const Tensor gradient = parameters.gradient(i);
      const Tensor& sum = sums_[static_cast<std::size_t>(i)];
      const bool is_same = !spec.is_split() && !spec.sum_over_tp && sums_once_;
      if (is_same && part > 0) continue;
      for_each_whole_run(spec, part, 0, gradient.numel(), [&](const WholeRun& run) {
        for (std::int64_t e = 0; e < run.count; ++e) {
          sum.set(run.whole_first + e, sum.get(run.whole_first + e) + gradient.get(run.at + e));
        }
      });
    }
  }
  // Parameters that are whole on every tensor-parallel rank have the same gradient there.
  void sum_whole_ones_once() { sums_once_ = true; }
  void check(const Model& model, WholeParameters& whole) const {
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      CAPTURE(model.parameters()[i].name);
      CHECK(relative_difference(sums_[i], whole.gradient(static_cast<int>(i))) < kMixerRounding);
    }
  }

 private:
  std::vector<Tensor> sums_;
  bool sums_once_ = false;
};

void check_tensor_parallel(const ModelCase& c) {
  WholeRunResult whole(c);
  const auto model = make_model(c.of_part());
  GatheredGradients gradients(*whole.model);
  gradients.sum_whole_ones_once();
  run_ranks(c.size, [&](Runtime& runtime, Communicator& world) {
    PartRun part(c, *model, runtime, world, &whole.parameters);
    part.forward([&](int module, const Tensor& y) {
      const Tensor expected = whole.outputs[static_cast<std::size_t>(module)].flat();
      const bool is_cut = c.sequence_parallel && expected.numel() > 1;
      CAPTURE(module);
      CHECK(relative_difference(y.flat(), is_cut ? shard_of(expected, world.rank(), c.size)
                                                 : expected) < kMixerRounding);
    });
    part.backward([](int, const Tensor&) {});
    CHECK(part.parameters.ready() == whole.parameters.ready());
    gradients.add(part.parameters, world.rank());
  });
  gradients.check(*whole.model, whole.parameters);
}

// Modules forward, then backward, of one rank's positions.
void run_share(const Model& model, const ModelContext& context, const Batch& batch,
               const std::function<void(int, const Tensor&)>& seen) {
  std::vector<Saved> saved(static_cast<std::size_t>(model.num_modules()));
  Tensor x;
  for (int module = 0; module < model.num_modules(); ++module) {
    x = model.forward(module, context, std::exchange(x, Tensor()), batch,
                      saved[static_cast<std::size_t>(module)]);
    if (module + 1 < model.num_modules()) seen(module, x);
  }
  Tensor d;
  for (int module = model.num_modules() - 1; module >= 0; --module) {
    d = model.backward(module, context, std::exchange(d, Tensor()), batch,
                       saved[static_cast<std::size_t>(module)]);
  }
}

void check_context_parallel(ModelOptions options, int ranks, bool later) {
  const ModelCase c{.options = options, .samples = kMixerSamples, .size = 1};
  WholeRunResult whole(c);
  options.context_parallel = ranks;
  const auto model = make_model(options);
  GatheredGradients gradients(*whole.model);
  run_ranks(ranks, [&](Runtime& runtime, Communicator& world) {
    ContextParallel parallel(world, ContextAttention::all_gather, 1);
    PartParameters parameters(*model, runtime, options.dtype, 0, &whole.parameters);
    Batch batch = model->make_batch(runtime, 3, 0, kMixerSamples, 0.3, parallel.part());
    batch.loss_scale = 0.125;
    ModelContext context{runtime, parameters, {.context = &parallel}};
    WeightGradientQueue queue;
    if (later) context.later = &queue;
    run_share(*model, context, batch, [&](int module, const Tensor& y) {
      const Tensor& expected = whole.outputs[static_cast<std::size_t>(module)];
      CAPTURE(module);
      CHECK(relative_difference(y, rows_of(expected, options.seq_len, parallel.part())) <
            kMixerRounding);
    });
    context.later = nullptr;
    queue.run(context);
    CHECK(parameters.ready() == whole.parameters.ready());
    gradients.add(parameters, 0);
  });
  gradients.check(*whole.model, whole.parameters);
}

}  // namespace

TEST_CASE("mixers cut by heads are those of one device, in every recomputation") {
  for (const char* name : {"delta hybrid", "mamba hybrid", "parallel hybrid", "scaled hybrid"}) {
    for (const bool sequence_parallel : {false, true}) {
      for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
        CAPTURE(name, sequence_parallel, static_cast<int>(recompute));
        ModelCase c{.options = hybrid(name), .samples = kMixerSamples, .size = 2};
        c.options.recompute = recompute;
        c.sequence_parallel = sequence_parallel;
        check_tensor_parallel(c);
      }
    }
  }
}

TEST_CASE("mixers that exchange positions for heads are those of one device") {
  for (const char* name : {"delta hybrid", "mamba hybrid", "parallel hybrid", "scaled hybrid"}) {
    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
      for (const bool later : {false, true}) {
        CAPTURE(name, static_cast<int>(recompute), later);
        ModelOptions options = hybrid(name);
        options.recompute = recompute;
        check_context_parallel(options, 2, later);
      }
    }
  }
}

TEST_CASE("neighbouring ranks have copies of a group where there are fewer groups than ranks") {
  check_context_parallel(hybrid("mamba hybrid"), 4, false);
}

namespace {

// One block with a mixer alone; no two sizes are equal.
ModelOptions mixer_alone(Mixer mixer, Recompute recompute = Recompute::none) {
  return {.family = "llama",
          .num_layers = 1,
          .hidden_size = 96,
          .ffn_hidden_size = 8,
          .num_attention_heads = 8,
          .num_query_groups = 8,
          .vocab_size = 100,
          .seq_len = 128,
          .layers = {{.mixer = mixer, .feed_forward = FeedForward::none}},
          .delta_net = {.key_heads = 4, .value_heads = 8, .key_size = 6, .value_size = 10},
          .mamba = {.num_heads = 8,
                    .head_size = 14,
                    .num_groups = 4,
                    .state_size = 9,
                    .conv_kernel = 3,
                    .chunk_size = 32},
          .dtype = DType::bf16,
          .recompute = recompute};
}

constexpr std::int64_t kAloneSamples = 3;
constexpr std::int64_t kAloneTokens = kAloneSamples * 128;

// Widths of rows of mixer_alone: of DeltaNet n_k d_k 24, n_v d_v 80, n_v 8; of Mamba-2 D 112,
// G N 36, n_m 8.
constexpr std::int64_t kDeltaProjection = 2 * 24 + 2 * 80 + 2 * 8;
constexpr std::int64_t kMambaProjection = 2 * 112 + 2 * 36 + 8;

// The block's pass, on shapes alone or with data.
struct MixerPass : BlockPass {
  explicit MixerPass(const ModelOptions& options, bool has_data = false)
      : BlockPass(options, kAloneSamples, 0, has_data) {}
};

}  // namespace

TEST_CASE("what mixers ask of a runtime does not depend on data") {
  for (const Mixer mixer : {Mixer::delta_net, Mixer::mamba}) {
    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
      const ModelOptions options = mixer_alone(mixer, recompute);
      CHECK(MixerPass(options, false).runtime.record() ==
            MixerPass(options, true).runtime.record());
    }
  }
}

TEST_CASE("mixers have the parameters of their formulas") {
  const std::int64_t h = 96;
  const std::int64_t outside = 2 * 100 * h + h + h;  // With the block's norm.
  CHECK(num_parameters(*make_model(mixer_alone(Mixer::delta_net))) - outside ==
        h * kDeltaProjection + 4 * (2 * 24 + 80) + 2 * 8 + 10 + 80 * h);
  CHECK(num_parameters(*make_model(mixer_alone(Mixer::mamba))) - outside ==
        h * kMambaProjection + (3 + 1) * (112 + 2 * 36) + 3 * 8 + 112 + 112 * h);
}

TEST_CASE("mixers keep what their formulas say, in each recomputation") {
  const std::int64_t h = 96;
  // Norm, projection, convolved part, X, o and y; sums of decays, statistics of both norms.
  const std::int64_t delta =
      2 * (h + kDeltaProjection + 2 * 24 + 80 + 64 * 8 + 80 + 80) + 4 * (8 + 8 + 1);
  const std::int64_t mamba = 2 * (h + kMambaProjection + 112 + 2 * 36 + 112 + 112) + 4 * (4 + 1);
  CHECK(MixerPass(mixer_alone(Mixer::delta_net)).kept == kAloneTokens * delta);
  CHECK(MixerPass(mixer_alone(Mixer::mamba)).kept == kAloneTokens * mamba);
  CHECK(MixerPass(mixer_alone(Mixer::delta_net, Recompute::selective)).kept ==
        kAloneTokens * (delta - 2 * (h + 2 * 24 + 80 + 80) - 4));
  CHECK(MixerPass(mixer_alone(Mixer::mamba, Recompute::selective)).kept ==
        kAloneTokens * (mamba - 2 * (h + 112 + 2 * 36 + 112) - 4));
  for (const Mixer mixer : {Mixer::delta_net, Mixer::mamba}) {
    CHECK(MixerPass(mixer_alone(mixer, Recompute::full)).kept == 0);
  }
}

TEST_CASE("flops of mixers are those of their matrices and chunks") {
  const std::int64_t h = 96;
  const std::int64_t t = kAloneTokens;
  const std::int64_t delta = 2 * t * h * (kDeltaProjection + 80);
  const std::int64_t rule =
      8 * t * (64 * (6 * 6 + 4 * 10) + 6 * 6 * 10) + 8 * (t / 64) * (64 * 64 * 64) / 3;
  const std::int64_t mamba = 2 * t * h * (kMambaProjection + 112);
  const std::int64_t scan = t * (2 * 32 * 36 + 8 * (2 * 32 * 14 + 4 * 9 * 14));
  const MixerPass by_rule(mixer_alone(Mixer::delta_net));
  const MixerPass by_scan(mixer_alone(Mixer::mamba));
  CHECK(by_rule.flops(true) == delta + rule);
  CHECK(by_rule.flops(false) == 2 * (delta + rule) + 8 * t * (2 * 64 * (6 + 10) + 4 * 6 * 10));
  CHECK(by_scan.flops(true) == mamba + scan);
  CHECK(by_scan.flops(false) == 2 * (mamba + scan) + t * (2 * 32 * 36 + 2 * 8 * 9 * 14));
  for (const Mixer mixer : {Mixer::delta_net, Mixer::mamba}) {
    const MixerPass none(mixer_alone(mixer));
    const MixerPass selective(mixer_alone(mixer, Recompute::selective));
    const MixerPass full(mixer_alone(mixer, Recompute::full));
    CHECK(selective.flops(false) == none.flops(false));
    CHECK(full.flops(false) == none.flops(false) + none.flops(true));
  }
  // The model's own count: Megatron-LM's for the recurrences.
  const std::int64_t head = 2 * t * h * 100;
  CHECK(kAloneSamples * by_rule.model->model_flops_per_sample() ==
        3 * (delta + 2 * t * 4 * (2 * 24 + 80) + 8 * t * 8 * 10 * 10 + head));
  CHECK(kAloneSamples * by_scan.model->model_flops_per_sample() ==
        3 * (mamba + 2 * t * 3 * (112 + 2 * 36) + 7 * t * 112 * 9 + head));
}

namespace {

// Bytes that ranks which share positions send, all together.
std::int64_t sent_for_heads(Mixer mixer, int ranks) {
  ModelOptions options = mixer_alone(mixer);
  options.context_parallel = ranks;
  const auto model = make_model(options);
  FiberWorld world({.cluster = test_cluster(ranks), .has_data = false});
  world.run([&](Runtime& runtime, Communicator& everyone) {
    ContextParallel parallel(everyone, ContextAttention::ring, 1);
    PartParameters parameters(*model, runtime, options.dtype, 0, nullptr);
    const Batch batch = model->make_batch(runtime, 3, 0, kAloneSamples, 0.0, parallel.part());
    run_share(*model, {runtime, parameters, {.context = &parallel}}, batch,
              [](int, const Tensor&) {});
  });
  return world.traffic().at("world").payload_sent;
}

}  // namespace

TEST_CASE("mixers send the columns of their projection for heads, and their output back") {
  // Each element of a token goes to another rank, but for 1 of c; there, back, and both backward.
  const auto sent = [](std::int64_t elements, int ranks) {
    return 2 * 2 * elements * kAloneTokens * (ranks - 1) / ranks;
  };
  for (const int ranks : {2, 4}) {
    CHECK(sent_for_heads(Mixer::delta_net, ranks) == sent(kDeltaProjection + 80, ranks));
    CHECK(sent_for_heads(Mixer::mamba, ranks) == sent(kMambaProjection, ranks));  // z stays.
  }
  // 8 ranks and 4 groups: B and C go twice.
  CHECK(sent_for_heads(Mixer::mamba, 8) == sent(kMambaProjection + 2 * 36, 8));
}

TEST_CASE("Muon leaves out convolutions and Mamba's projection of several kinds of rows") {
  for (const char* name : {"delta hybrid", "mamba hybrid"}) {
    const auto model = make_model(hybrid(name));
    for (const ParameterSpec& spec : model->parameters()) {
      const bool is_fused = spec.name == "blocks.0.mamba.w_in";
      if (spec.name.find("convolution") != std::string::npos || is_fused) {
        CHECK_FALSE(spec.has_matrices());
      }
      // q, k, v, z, beta and a.
      if (spec.name == "blocks.0.delta_net.w_in") {
        CHECK(spec.matrix_rows == std::vector<std::int64_t>{6, 6, 8, 8, 4, 4});
      }
      if (spec.name == "blocks.0.mamba.wo") CHECK(spec.has_matrices());
    }
  }
}

TEST_CASE("heads that ranks cannot divide are refused by name") {
  const auto refused = [](Mixer mixer, auto&& change) {
    ModelOptions options = mixer_alone(mixer);
    change(options);
    return code_of_model(options);
  };
  using O = ModelOptions;
  CHECK(refused(Mixer::delta_net, [](O& o) { o.delta_net.key_size = 0; }) == "E0651");
  CHECK(refused(Mixer::delta_net, [](O& o) { o.delta_net.key_heads = 3; }) == "E0651");
  CHECK(refused(Mixer::mamba, [](O& o) { o.mamba.num_groups = 3; }) == "E0651");
  CHECK(refused(Mixer::mamba, [](O& o) { o.mamba.chunk_size = 0; }) == "E0651");
  CHECK(refused(Mixer::delta_net, [](O& o) { o.tensor_parallel = 8; }) == "E0652");  // 4 key heads.
  CHECK(refused(Mixer::mamba, [](O& o) { o.tensor_parallel = 8; }) == "E0652");      // 4 groups.
  CHECK(refused(Mixer::delta_net, [](O& o) { o.context_parallel = 8; }) == "E0653");
  CHECK(refused(Mixer::mamba, [](O& o) { o.context_parallel = 8; }) == "none");  // Copies.
  CHECK(refused(Mixer::mamba, [](O& o) { o.context_parallel = 16; }) == "E0653");
  CHECK(refused(Mixer::mamba, [](O& o) {
          o.mamba.num_groups = 8;
          o.mamba.num_heads = 24;
          o.seq_len = 120;
          o.context_parallel = 12;
        }) == "E0653");  // 12 ranks cannot share 8 groups evenly.
  CHECK(refused(Mixer::none, [](O&) {}) == "E0648");
}

}  // namespace shardsim::test

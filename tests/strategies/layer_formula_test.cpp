#include <cstddef>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/strategies/block_pass.hpp"

// Heads of layers, values from keys, gates of heads, experts on latents, and two mixers of a layer
// against their closed formulas: parameters, memory kept and flops, in each recomputation.
namespace shardsim::test {
namespace {

constexpr std::int64_t kFormulaSamples = 3;
constexpr std::int64_t kFormulaLength = 96;
constexpr std::int64_t kFormulaTokens = kFormulaSamples * kFormulaLength;
constexpr std::int64_t kFormulaWidth = 256;   // h
constexpr std::int64_t kFormulaInner = 704;   // f
constexpr std::int64_t kFormulaVocab = 1000;  // V
constexpr std::int64_t kWindow = 20;
constexpr std::int64_t kFormulaHead = 2 * kFormulaTokens * kFormulaWidth * kFormulaVocab;

// All sizes differ, so that no term can hide behind another.
ModelOptions formula_model(const std::vector<LayerOptions>& layers) {
  return {.family = "llama",
          .num_layers = static_cast<std::int64_t>(layers.size()),
          .hidden_size = kFormulaWidth,
          .ffn_hidden_size = kFormulaInner,
          .num_attention_heads = 8,
          .num_query_groups = 4,
          .head_dim = 24,
          .value_head_dim = 40,
          .vocab_size = kFormulaVocab,
          .seq_len = kFormulaLength,
          .rotary_dim = 12,
          .layers = layers,
          .dtype = DType::bf16};
}

// A block: its parameters, the bytes that a token keeps beside the block's input, and flops of all
// tokens. Backward of a product has twice those of its forward.
struct Formula {
  std::int64_t parameters = 0;
  std::int64_t kept = 0;
  std::int64_t recomputed = 0;  // The part that selective recomputation does not keep.
  std::int64_t products = 0;    // In forward.
  std::int64_t other_forward = 0;
  std::int64_t other_backward = 0;

  void add_matrices(std::int64_t elements) {
    parameters += elements;
    products += 2 * kFormulaTokens * elements;
  }
  // A norm in front of a branch: its output and, in fp32, a statistic.
  void add_norm() {
    parameters += kFormulaWidth;
    kept += 2 * kFormulaWidth + 4;
    recomputed += 2 * kFormulaWidth + 4;
  }
  // The second branch of a block, whose input is kept, too.
  void add_mlp(std::int64_t inner = kFormulaInner) {
    add_norm();
    add_matrices(3 * kFormulaWidth * inner);
    kept += 2 * (kFormulaWidth + 3 * inner);
    recomputed += 2 * inner;
  }
};

struct FormulaHeads {
  std::int64_t n = 8;
  std::int64_t k = 4;
  std::int64_t d = 24;
  std::int64_t v = 40;
  std::int64_t twice_pairs = kFormulaLength * kFormulaLength;  // In a sample.
};

// q, k, v, y and, in fp32, a log-sum-exp of each head.
void add_attention(Formula& formula, const FormulaHeads& heads) {
  const auto [n, k, d, v, twice_pairs] = heads;
  const std::int64_t pairs = kFormulaSamples * twice_pairs * n;
  formula.add_matrices(kFormulaWidth * (n * d + k * d + k * v + n * v));
  formula.kept += 2 * (n * d + k * d + k * v + n * v) + 4 * n;
  formula.other_forward += pairs * (d + v);
  formula.other_backward += pairs * (3 * d + 2 * v);
}

Formula attention_block(const FormulaHeads& heads, std::int64_t inner = kFormulaInner) {
  Formula formula;
  formula.add_norm();
  add_attention(formula, heads);
  formula.add_mlp(inner);
  return formula;
}

void check_formula(ModelOptions options, int block, const Formula& formula) {
  CAPTURE(block);
  const BlockPass none(options, kFormulaSamples, block);
  CHECK(none.kept == kFormulaTokens * formula.kept);
  CHECK(none.flops(true) == formula.products + formula.other_forward);
  CHECK(none.flops(false) == 2 * formula.products + formula.other_backward);
  options.recompute = Recompute::selective;
  const BlockPass selective(options, kFormulaSamples, block);
  CHECK(selective.kept == kFormulaTokens * (formula.kept - formula.recomputed));
  CHECK(selective.flops(true) == none.flops(true));
  CHECK(selective.flops(false) == none.flops(false));
  options.recompute = Recompute::full;
  const BlockPass full(options, kFormulaSamples, block);
  CHECK(full.kept == 0);
  CHECK(full.flops(true) == none.flops(true));
  CHECK(full.flops(false) == none.flops(false) + none.flops(true));
}

// The blocks, and the whole model: its parameters, and its own count of flops, for which backward
// is two forwards, and nothing is computed again.
void check_model(const ModelOptions& options, const std::vector<Formula>& formulas,
                 std::int64_t uncounted = 0) {
  std::int64_t parameters = 2 * kFormulaVocab * kFormulaWidth + kFormulaWidth;
  std::int64_t forward = kFormulaHead - uncounted;
  for (std::size_t i = 0; i < formulas.size(); ++i) {
    check_formula(options, static_cast<int>(i), formulas[i]);
    parameters += formulas[i].parameters;
    forward += formulas[i].products + formulas[i].other_forward;
  }
  const auto model = make_model(options);
  CHECK(num_parameters(*model) == parameters);
  CHECK(kFormulaSamples * model->model_flops_per_sample() == 3 * forward);
}

}  // namespace

TEST_CASE("M4: a layer with heads of its own keeps and computes what these heads do") {
  const HeadOptions own{.num_attention_heads = 12,
                        .num_query_groups = 2,
                        .head_dim = 36,
                        .value_head_dim = 28,
                        .rotary_dim = 16};
  const AttentionMask window{AttentionReach::sliding, kWindow};
  const FormulaHeads heads{12, 2, 36, 28, 2 * kWindow * kFormulaLength - kWindow * kWindow};
  Formula with_sinks = attention_block(heads);
  with_sinks.parameters += 12;
  check_model(formula_model({{}, {.mask = window, .has_sinks = true, .heads = own}, {}}),
              {attention_block({}), with_sinks, attention_block({})});
  // Each size alone; a head_dim alone is that of values, too.
  check_model(formula_model({{.heads = {.num_attention_heads = 12}},
                             {.heads = {.num_query_groups = 2}},
                             {.heads = {.head_dim = 36}},
                             {.heads = {.value_head_dim = 28}}}),
              {attention_block({12, 4, 24, 40}), attention_block({8, 2, 24, 40}),
               attention_block({8, 4, 36, 36}), attention_block({8, 4, 24, 28})});
}

TEST_CASE("M4: values that are keys are neither projected nor, where they stay these, kept") {
  const HeadOptions keys{.num_query_groups = 2, .head_dim = 36, .keys_are_values = true};
  const auto formula = [](bool is_kept) {
    Formula made = attention_block({8, 2, 36, 36});
    made.add_matrices(-kFormulaWidth * 2 * 36);
    if (!is_kept) made.kept -= 2 * 2 * 36;
    return made;
  };
  const std::vector<LayerOptions> layers = {{.heads = keys}, {.has_rotary = false, .heads = keys}};
  check_model(formula_model(layers), {formula(true), formula(false)});
  ModelOptions scaled = formula_model(layers);
  scaled.value_scale = 0.7;
  check_model(scaled, {formula(true), formula(true)});
  // Queries and keys before their norms: the latter are the values. Norms' weights, and statistics.
  const auto normed = [&](bool is_kept) {
    Formula made = formula(is_kept);
    made.parameters += 2 * 36;
    made.kept += 2 * (8 + 2) * 36 + 4 * (8 + 2);
    return made;
  };
  ModelOptions options = formula_model(layers);
  options.query_key_norm = QueryKeyNorm::per_head;
  check_model(options, {normed(false), normed(false)});
  // As Gemma 4 has them.
  options.value_norm = true;
  Formula with_values = normed(true);
  with_values.kept += 4 * 2;
  check_model(options, {with_values, with_values});
}

TEST_CASE("M4: norms of values keep a statistic of each head, and scales nothing") {
  ModelOptions options = formula_model({{}});
  options.value_scale = 0.7;
  check_model(options, {attention_block({})});
  options.value_norm = true;
  Formula normed = attention_block({});
  normed.kept += 4 * 4;
  check_model(options, {normed});
}

TEST_CASE("M4: gates of heads are a number of each head, kept and projected") {
  ModelOptions options = formula_model({{}, {.heads = {.num_attention_heads = 12}}});
  options.attention_head_gate = true;
  Formula first = attention_block({});
  first.add_matrices(kFormulaWidth * 8);
  first.kept += 2 * 8;
  Formula second = attention_block({12, 4, 24, 40});
  second.add_matrices(kFormulaWidth * 12);
  second.kept += 2 * 12;
  check_model(options, {first, second});
}

TEST_CASE("M4: experts on latents compute and keep rows of their width, and two projections") {
  constexpr std::int64_t kExperts = 16;
  constexpr std::int64_t kChosen = 3;
  constexpr std::int64_t kRowInner = 112;     // f of an expert,
  constexpr std::int64_t kSharedInner = 200;  // and of the one for all.
  for (const bool is_gated : {false, true}) {
    for (const std::int64_t latent : {72, 0}) {
      CAPTURE(is_gated, latent);
      ModelOptions options =
          formula_model({{.mixer = Mixer::none, .feed_forward = FeedForward::experts}});
      if (!is_gated) options.activation.kind = Activation::squared_relu;
      options.moe = {.num_experts = kExperts,
                     .experts_per_token = kChosen,
                     .ffn_hidden_size = kRowInner,
                     .latent_size = latent,
                     .shared_ffn_hidden_size = kSharedInner};
      const std::int64_t width = latent > 0 ? latent : kFormulaWidth;
      const std::int64_t columns = is_gated ? 2 : 1;  // Gate and up, or up.
      const std::int64_t matrices = columns + 1;
      Formula formula;
      formula.add_norm();
      formula.add_matrices(kFormulaWidth * kExperts);
      formula.add_matrices(2 * kFormulaWidth * latent);
      formula.add_matrices(matrices * kFormulaWidth * kSharedInner);
      // A token passes some of the experts.
      formula.add_matrices(matrices * kChosen * width * kRowInner);
      formula.parameters += matrices * (kExperts - kChosen) * width * kRowInner;
      // Scores, and of each choice its number, its weight and its place; all have 4 bytes.
      formula.kept += 4 * (kExperts + 3 * kChosen);
      // Rows to and from experts, and what lies between; the sum that is projected back.
      formula.kept += 2 * kChosen * (2 * width + (columns + 1) * kRowInner) + 2 * latent;
      formula.kept += 2 * (columns + 1) * kSharedInner;
      formula.recomputed += 2 * (kChosen * kRowInner + kSharedInner);
      // Rows of each expert are counted once for all tokens.
      const BlockPass pass(options, kFormulaSamples);
      CHECK(pass.kept == kFormulaTokens * formula.kept + 4 * kExperts);
      options.recompute = Recompute::selective;
      const BlockPass selective(options, kFormulaSamples);
      CHECK(selective.kept == kFormulaTokens * (formula.kept - formula.recomputed) + 4 * kExperts);
      options.recompute = Recompute::full;
      const BlockPass full(options, kFormulaSamples);
      CHECK(full.kept == 0);
      CHECK(pass.flops(true) == formula.products);
      CHECK(pass.flops(false) == 2 * formula.products);
      CHECK(selective.flops(false) == 2 * formula.products);
      CHECK(full.flops(false) == 3 * formula.products);
      CHECK(num_parameters(*pass.model) ==
            formula.parameters + 2 * kFormulaVocab * kFormulaWidth + kFormulaWidth);
      CHECK(kFormulaSamples * pass.model->model_flops_per_sample() ==
            3 * (formula.products + kFormulaHead));
    }
  }
}

TEST_CASE("M4: a tensor-parallel rank keeps and computes its heads' part, and whole norms") {
  const std::int64_t inner = kFormulaInner / 2;
  const HeadOptions own{
      .num_attention_heads = 12, .num_query_groups = 2, .head_dim = 36, .value_head_dim = 28};
  const HeadOptions keys{.num_query_groups = 2, .head_dim = 36, .keys_are_values = true};
  ModelOptions options =
      formula_model({{}, {.heads = own}, {.heads = {.num_query_groups = 1}}, {.heads = keys}});
  options.tensor_parallel = 2;
  options.attention_head_gate = true;
  options.value_norm = true;
  const auto of_rank = [&](const FormulaHeads& heads) {
    Formula formula = attention_block(heads, inner);
    formula.add_matrices(kFormulaWidth * heads.n);  // Gates, and norms of values.
    formula.kept += 2 * heads.n + 4 * heads.k;
    return formula;
  };
  check_formula(options, 0, of_rank({4, 2, 24, 40}));
  check_formula(options, 1, of_rank({6, 1, 36, 28}));
  check_formula(options, 2, of_rank({4, 1, 24, 40}));  // Both ranks have the one of its keys.
  Formula of_keys = of_rank({4, 1, 36, 36});
  of_keys.add_matrices(-kFormulaWidth * 36);
  check_formula(options, 3, of_keys);
}

TEST_CASE("M4: attention beside Mamba-2 keeps and computes what both do, behind one norm") {
  constexpr std::int64_t kHeads = 6;
  constexpr std::int64_t kHeadSize = 14;  // p
  constexpr std::int64_t kGroups = 2;
  constexpr std::int64_t kState = 9;
  constexpr std::int64_t kTaps = 3;
  constexpr std::int64_t kChunk = 32;
  constexpr std::int64_t kScanned = kHeads * kHeadSize;  // D
  constexpr std::int64_t kConvolved = kScanned + 2 * kGroups * kState;
  constexpr std::int64_t kProjected = kScanned + kConvolved + kHeads;
  for (const bool has_norm : {false, true}) {
    CAPTURE(has_norm);
    ModelOptions options = formula_model({{.mixer = Mixer::attention_mamba}});
    options.mamba = {.num_heads = kHeads,
                     .head_size = kHeadSize,
                     .num_groups = kGroups,
                     .state_size = kState,
                     .conv_kernel = kTaps,
                     .chunk_size = kChunk,
                     .has_norm = has_norm};
    Formula formula;
    formula.add_norm();
    add_attention(formula, {});
    formula.add_matrices(kFormulaWidth * (kProjected + kScanned));
    // The convolution with its bias; A_log, dt_bias and D of each head; the norm's weight.
    formula.parameters += (kTaps + 1) * kConvolved + 3 * kHeads + (has_norm ? kScanned : 0);
    // Projected and convolved columns, o and y; statistics of the norm.
    formula.kept += 2 * (kProjected + kConvolved + 2 * kScanned) + (has_norm ? 4 * kGroups : 0);
    formula.recomputed += 2 * (kConvolved + kScanned);
    const std::int64_t in_chunks = kGroups * kState * kChunk;
    const std::int64_t of_heads = kHeads * kHeadSize * kChunk;
    const std::int64_t of_states = kHeads * kHeadSize * kState;
    const std::int64_t scan = kFormulaTokens * (2 * in_chunks + 2 * of_heads + 4 * of_states);
    formula.other_forward += scan;
    formula.other_backward += kFormulaTokens * (6 * in_chunks + 4 * of_heads + 10 * of_states);
    formula.add_mlp();
    // For the model's own count: the convolution, and 7 D N.
    const std::int64_t counted = kFormulaTokens * (2 * kTaps * kConvolved + 7 * kScanned * kState);
    check_model(options, {formula}, scan - counted);
    // Factors are no products, and keep nothing.
    options.mlp_gate_scale = options.mlp_output_scale = 0.7;
    for (double* const scale :
         {&options.mamba.z_scale, &options.mamba.x_scale, &options.mamba.b_scale,
          &options.mamba.c_scale, &options.mamba.dt_scale, &options.mamba.output_scale}) {
      *scale = 0.7;
    }
    check_model(options, {formula}, scan - counted);
  }
}

}  // namespace shardsim::test

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "strategies/gradient_sync/matrix_update.hpp"
#include "strategies/training/parallel_plan.hpp"

#include "tests/strategies/training_case.hpp"

// Muon under every mode: the numbers of one device, the bytes of its formulas, one program with and
// without data.
namespace shardsim::test {

namespace {

using Tp = MuonTensorParallel;
using Dp = MuonDataParallel;

TrainingCase muon_case(const std::string& model, const MeshShape& mesh, int zero_stage = 0,
                       const MuonOptions& muon = {}) {
  TrainingCase c;
  c.name = model;
  c.model = small_model(model);
  c.mesh = mesh;
  c.zero_stage = zero_stage;
  c.optimizer = "adamw";
  c.sync.muon = muon;
  c.training.steps = 3;
  c.training.num_microbatches = 2;
  c.bucket_bytes = 2000;
  return c;
}

double error_of(const TrainingCase& c) {
  const TrainingResult result = run(c);
  const std::vector<StepRecord> reference = train_alone(c);
  double most = 0.0;
  for (std::size_t step = 0; step < reference.size(); ++step) {
    most = std::max(most, worst_error(merge(c, result, step), reference[step]).value);
  }
  return most;
}

std::vector<MatrixPart> matrices_of(const TrainingCase& c) {
  ModelOptions options = c.model;
  options.tensor_parallel = c.mesh.tp;
  const std::unique_ptr<Model> model = make_model(options);
  const FlatLayout layout = layout_of(c, *model);
  std::vector<MatrixPart> parts;
  for (int chunk = 0; chunk < static_cast<int>(layout.chunks().size()); ++chunk) {
    if (!layout.chunk(chunk).matrices) continue;
    for_each_matrix(*model, layout, chunk, 0, layout.chunk(chunk).padded,
                    [&](const ChunkMatrix& matrix) { parts.push_back(matrix.part); });
  }
  return parts;
}

// A run's traffic over a group, less that of the same one with AdamW alone.
TrafficCounters more_than_adamw(TrainingCase c, const std::string& group) {
  c.world.has_data = false;
  c.world.all_reduce_algorithm = Algorithm::ring;
  TrafficCounters more = run(c).traffic[group];
  c.sync.muon.reset();
  const TrafficCounters without = run(c).traffic[group];
  more.payload_sent -= without.payload_sent;
  more.scalar_sent -= without.scalar_sent;
  more.scalar_calls -= without.scalar_calls;
  return more;
}

}  // namespace

TEST_CASE("M11: muon on one device is its definition, for all settings and models") {
  for (const char* model : {"mlp", "untied gpt2", "gpt2", "llama", "tied llama"}) {
    INFO(model);
    CHECK(error_of(muon_case(model, {})) <= kOracleBound);
  }
  for (const MuonCoefficients coefficients :
       {MuonCoefficients::quintic, MuonCoefficients::simple}) {
    for (const bool nesterov : {false, true}) {
      for (const MuonScale scale :
           {MuonScale::spectral, MuonScale::shape_scaling, MuonScale::unit_rms_norm}) {
        CHECK(error_of(muon_case("llama", {}, 0,
                                 {.momentum = 0.8,
                                  .nesterov = nesterov,
                                  .num_steps = 3,
                                  .coefficients = coefficients,
                                  .scale = scale,
                                  .extra_scale_factor = 0.2})) <= kOracleBound);
      }
    }
  }
  TrainingCase clipped = muon_case("llama", {});
  clipped.optimizer = "lion";
  clipped.training.max_grad_norm = 0.01;
  CHECK(error_of(clipped) <= kOracleBound);
}

TEST_CASE("M11: duplicated, distributed, layer-wise and slices are one device") {
  struct Layout {
    MeshShape mesh;
    int zero_stage;
  };
  const Layout layouts[] = {
      {{.dp_shard = 2}, 0},
      {{.dp_shard = 3}, 1},
      {{.tp = 2}, 0},
      {{.dp_shard = 2, .tp = 2}, 1},
      {{.dp_shard = 2, .dp_replicate = 2}, 1},
      {{.dp_shard = 2, .pp = 2}, 1},
      {{.dp_shard = 2, .tp = 2, .pp = 2}, 1},
  };
  for (const char* model : {"untied gpt2", "llama"}) {
    for (const Layout& layout : layouts) {
      for (const Tp tensor_parallel : {Tp::duplicated, Tp::distributed}) {
        if (tensor_parallel == Tp::distributed && layout.mesh.tp == 1) continue;
        for (const Dp data_parallel : {Dp::layer_wise, Dp::slices}) {
          if (data_parallel == Dp::slices && layout.zero_stage == 0) continue;
          const TrainingCase c =
              muon_case(model, layout.mesh, layout.zero_stage,
                        {.tensor_parallel = tensor_parallel, .data_parallel = data_parallel});
          INFO(describe(c) << ", " << static_cast<int>(tensor_parallel) << ", "
                           << static_cast<int>(data_parallel));
          CHECK(error_of(c) <= kOracleBound);
        }
      }
    }
  }
}

TEST_CASE("sequence and context parallelism give muon the same gradients") {
  TrainingCase c = muon_case("llama", {.tp = 2, .cp = 2}, 1);
  c.model.seq_len = 8;
  c.model.sequence_parallel = true;
  c.model.context_attention = ContextAttention::ring;
  CHECK(error_of(c) <= kOracleBound);
}

TEST_CASE("M11: copies of key and value heads are one device's, in every mode") {
  for (const std::int64_t groups : {1, 2}) {
    for (const Tp mode : {Tp::duplicated, Tp::distributed, Tp::blockwise}) {
      for (const int zero_stage : {0, 1}) {
        for (const Dp data_parallel : {Dp::layer_wise, Dp::slices}) {
          if (data_parallel == Dp::slices && zero_stage == 0) continue;
          TrainingCase c = muon_case("llama", {.dp_shard = zero_stage + 1, .tp = 4}, zero_stage,
                                     {.tensor_parallel = mode, .data_parallel = data_parallel});
          c.model.num_query_groups = groups;
          INFO(describe(c) << ", " << groups << " groups, " << static_cast<int>(mode) << ", "
                           << static_cast<int>(data_parallel));
          CHECK(error_of(c) <= kOracleBound);
        }
      }
    }
  }
}

TEST_CASE("M11: ranks with copies of key and value heads meet those with the other heads alone") {
  TrainingCase c = muon_case("llama", {.tp = 4});
  c.training.steps = 1;
  std::int64_t gathered = 0;
  std::int64_t summed = 0;
  int matrices = 0;
  const std::unique_ptr<Model> whole = make_model(c.model);
  for (const ParameterSpec& spec : whole->parameters()) {
    const bool is_copied = spec.name.ends_with(".wk") || spec.name.ends_with(".wv");
    if (!is_copied) continue;
    ++matrices;
    // Both ranks of each of two groups: 8 m n / 2, and 5 x 2 h^2 x 8 / 2.
    gathered += 4 * 8 * spec.shape.numel() / 2;
    summed += 4 * 5 * 2 * spec.shape[1] * spec.shape[1] * 8 / 2;
  }
  REQUIRE(matrices == 4);
  CHECK(more_than_adamw(c, "tp_parts").payload_sent == gathered);
  c.sync.muon->tensor_parallel = Tp::distributed;
  const TrafficCounters more = more_than_adamw(c, "tp_parts");
  CHECK(more.payload_sent == summed);
  CHECK(more.scalar_calls == 4 * matrices);
  c.sync.muon->tensor_parallel = Tp::blockwise;
  CHECK(more_than_adamw(c, "tp_parts").payload_sent == 0);
  CHECK(run(c).traffic.count("tp_parts") == 0);
}

TEST_CASE("M11: blockwise is the algorithm of slices, and no other") {
  for (const char* model : {"untied gpt2", "llama", "mlp"}) {
    for (const int zero_stage : {0, 1}) {
      TrainingCase c = muon_case(model, {.dp_shard = zero_stage + 1, .tp = 2}, zero_stage,
                                 {.tensor_parallel = Tp::blockwise});
      INFO(describe(c));
      CHECK(error_of(c) <= kOracleBound);
      const TrainingResult result = run(c);
      c.sync.muon->tensor_parallel = Tp::duplicated;
      CHECK(worst_error(merge(c, result, 0), train_alone(c)[0]).value > 1e-3);
    }
  }
}

TEST_CASE("M11: a gradient of zeros moves nothing but by the decay") {
  TrainingCase c = muon_case("llama", {.dp_shard = 2, .tp = 2}, 1);
  c.training.ignore_fraction = 1.0 - 1e-9;  // No target is left.
  c.training.max_grad_norm = 0.0;
  c.optimizer_options.weight_decay = 0.0;
  c.training.steps = 2;
  const TrainingResult result = run(c);
  const StepRecord first = merge(c, result, 0);
  CHECK(first.values.at("parameter") == merge(c, result, 1).values.at("parameter"));
  for (const std::vector<double>& values : first.values.at("gradient")) {
    for (const double value : values) REQUIRE(value == 0.0);
  }
}

TEST_CASE("M11: tensor-parallel modes send what their formulas say") {
  for (const int t : {2, 4}) {
    for (const int dp : {1, 2}) {
      for (const int zero_stage : {0, 1}) {
        TrainingCase c = muon_case("untied gpt2", {.dp_shard = dp, .tp = t}, zero_stage);
        c.training.steps = 1;
        // Groups with the matrix: all data-parallel ranks, or its owner's.
        const std::int64_t groups = zero_stage == 1 ? 1 : dp;
        std::int64_t gathered = 0;
        std::int64_t summed = 0;
        const std::vector<MatrixPart> matrices = matrices_of(c);
        for (const MatrixPart& part : matrices) {
          const std::int64_t o = part.cut_axis == 0 ? part.in() : part.out();
          // Per rank 8 m n (t - 1) / t, and 5 x 2 o^2 x 8 (t - 1) / t.
          gathered += groups * 8 * part.out() * part.in() * (t - 1);
          summed += groups * 5 * 2 * o * o * 8 * (t - 1);
        }
        INFO("tp " << t << ", dp " << dp << ", zero " << zero_stage);
        c.sync.muon->tensor_parallel = Tp::duplicated;
        TrafficCounters more = more_than_adamw(c, "tp");
        CHECK(more.payload_sent == gathered);
        CHECK(more.scalar_sent == 0);
        c.sync.muon->tensor_parallel = Tp::distributed;
        more = more_than_adamw(c, "tp");
        CHECK(more.payload_sent == summed);
        CHECK(more.scalar_calls == groups * t * std::ssize(matrices));
        c.sync.muon->tensor_parallel = Tp::blockwise;
        more = more_than_adamw(c, "tp");
        CHECK(more.payload_sent == 0);
        CHECK(more.scalar_sent == 0);
      }
    }
  }
}

TEST_CASE("M11: ZeRO-1 sends as AdamW does, and 2 bytes more per element where it owns slices") {
  for (const int n : {2, 3}) {
    TrainingCase c = muon_case("llama", {.dp_shard = n}, 1);
    c.model.dtype = c.sync.weight_dtype = DType::bf16;
    c.sync.master_dtype = c.sync.gradient_dtype = DType::fp32;
    c.training.steps = 1;
    std::int64_t elements = 0;
    for (const MatrixPart& part : matrices_of(c)) elements += part.numel();
    CHECK(more_than_adamw(c, "dp_shard").payload_sent == 0);
    c.sync.muon->data_parallel = Dp::slices;
    // Per rank 2 m n (n - 1) / n.
    CHECK(more_than_adamw(c, "dp_shard").payload_sent == 2 * elements * (n - 1));
  }
}

TEST_CASE("state is one tensor of matrices, and the other optimizer's of the rest") {
  TrainingCase c = muon_case("llama", {});
  c.world.has_data = false;
  std::int64_t matrices = 0;
  for (const MatrixPart& part : matrices_of(c)) matrices += part.numel();
  std::int64_t all = 0;
  const std::unique_ptr<Model> model = make_model(c.model);
  for (const ParameterSpec& spec : model->parameters()) all += spec.shape.numel();
  const auto state = [&] { return of(run(c).ranks[0].persistent, MemoryCategory::optimizer); };
  CHECK(state() == 8 * (matrices + 2 * (all - matrices)));
  c.optimizer = "lion";
  CHECK(state() == 8 * all);
  // Layer-wise: a rank has its share, and the padding of its buckets.
  c.mesh.dp_shard = 2;
  c.zero_stage = 1;
  const FlatLayout layout = layout_of(c, *make_model(c.model));
  CHECK(state() == 8 * layout.padded() / 2);
  CHECK(layout.padded() < all * 1.3);
}

TEST_CASE("muon makes the same calls and takes the same memory with and without data") {
  for (const Tp tensor_parallel : {Tp::duplicated, Tp::distributed, Tp::blockwise}) {
    for (const Dp data_parallel : {Dp::layer_wise, Dp::slices}) {
      for (const DType dtype : {DType::fp64, DType::bf16}) {
        TrainingCase c =
            muon_case("untied gpt2", {.dp_shard = 2, .tp = 2}, 1,
                      {.tensor_parallel = tensor_parallel, .data_parallel = data_parallel});
        c.record = false;
        c.model.dtype = c.sync.weight_dtype = dtype;
        c.sync.master_dtype = c.sync.gradient_dtype =
            dtype == DType::fp64 ? DType::fp64 : DType::fp32;
        const TrainingResult real = run(c);
        const TrainingResult plan = run(without_data(c));
        CHECK(real.trace_hash == plan.trace_hash);
        CHECK(real.sent_by_rank == plan.sent_by_rank);
        for (std::size_t rank = 0; rank < real.ranks.size(); ++rank) {
          CHECK(real.ranks[rank].peaks == plan.ranks[rank].peaks);
          CHECK(real.ranks[rank].end == plan.ranks[rank].end);
        }
      }
    }
  }
}

TEST_CASE("muon is refused by name with what it is not made for") {
  const auto refusal = [](const TrainingCase& c) -> std::string {
    try {
      const auto optimizer = make_optimizer(c.optimizer, c.optimizer_options);
      const ParallelPlan plan(options_of(c), *optimizer);
    } catch (const UsageError& error) {
      return error.what();
    }
    return {};
  };
  const TrainingCase fine = muon_case("llama", {.dp_shard = 2}, 1);
  CHECK(refusal(fine).empty());
  for (const int zero_stage : {2, 3}) {
    CHECK(refusal(muon_case("llama", {.dp_shard = 2}, zero_stage)).find("muon with zero_stage") !=
          std::string::npos);
  }
  TrainingCase c = fine;
  c.sync.offload_optimizer = true;
  CHECK(refusal(c).find("offloaded") != std::string::npos);
  c = muon_case("llama", {.dp_replicate = 2});
  c.sync.local.sync_period = 2;
  CHECK(refusal(c).find("another algorithm") != std::string::npos);
  c = muon_case("llama", {.dp_shard = 2});
  c.sync.max_staleness = 1;
  CHECK(refusal(c).find("another algorithm") != std::string::npos);
}

}  // namespace shardsim::test

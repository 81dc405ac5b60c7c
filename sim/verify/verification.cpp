#include <algorithm>
#include <memory>
#include <numeric>

#include "sim/verify/oracle.hpp"
#include "sim/verify/rounding_noise.hpp"

namespace shardsim {

namespace {

// The same model in fp64, if the run has another dtype.
std::unique_ptr<Model> exact_model_of(const ParallelOptions& run) {
  if (run.model.dtype == DType::fp64 && run.sync.gradient_dtype == DType::fp64) return nullptr;
  ModelOptions options = run.model;
  options.sequence_parallel = false;  // It computes on one rank.
  options.dtype = DType::fp64;
  return make_model(options);
}

// Roundings of a sum over parts of `ranks` ranks, for one of one device: the parts, which together
// count as one, and the sums of 2, 3, ..., all parts on the way, i / ranks of one each.
double roundings_of_sum(int ranks) {
  const double n = ranks;
  return 1.0 + (n * (n + 1.0) / 2.0 - 1.0) / n;
}

// Roundings that are more than on one device, halved: the reference has as many. Whole experts
// elsewhere compute whole rows, which are added up where their token is, or on their way there.
SumRoundings more_roundings_of(const ParallelOptions& options) {
  const MeshShape& mesh = options.mesh;
  const ModelOptions& model = options.model;
  SumRoundings more;
  if (mesh.tp > 1) {
    more.tensor_ranks = (roundings_of_sum(mesh.tp) - 1.0) / 2.0;
    more.bias = 0.5;
  }
  if (mesh.etp > 1) more.expert_slices = (roundings_of_sum(mesh.etp) - 1.0) / 2.0;
  if (mesh.dispatch_nodes > 0) {
    const auto chosen =
        static_cast<int>(std::min<std::int64_t>(model.moe.experts_per_token, mesh.ep));
    more.expert_ranks = (roundings_of_sum(chosen) - 1.0) / 2.0;
  }
  // Ranks that exchange heads attend to whole samples. Ranks with copies of a key and value head
  // have some of the queries that share it.
  const int shares = mesh.cp / ulysses_size(model.context_attention, mesh.cp, model.ulysses_degree);
  const int copies = model.most_group_copies(mesh.tp);
  if (shares * copies > 1) {
    more.query_shares = (roundings_of_sum(shares * copies) - 1.0) / 2.0;
  }
  if (shares > 1) {
    const bool adds_blocks = context_attention_row(model.context_attention).passes_keys_around;
    more.key_blocks = adds_blocks ? (shares - 1) / 2.0 : 0.0;
  }
  return more;
}

// Samples of the fewest ranks that are whole microbatches and whole groups whose rows meet at
// experts.
std::int64_t samples_of_experts(const ParallelOptions& options) {
  const std::int64_t of_group = std::int64_t{options.mesh.ep} * options.mesh.etp;
  const std::int64_t of_microbatch = std::int64_t{options.mesh.cp} * options.mesh.tp;
  return options.training.micro_batch_size * std::lcm(of_group, of_microbatch) / of_microbatch;
}

// The same samples for one rank that trains on all of them.
GlobalBatch global_batch_of(const ParallelOptions& options) {
  const TrainingPlan& training = options.training;
  const std::int64_t microbatch = training.micro_batch_size * options.mesh.data_size();
  GlobalBatch batch(microbatch * training.num_microbatches);
  batch.context_parts = options.mesh.cp;
  batch.token_shards = options.model.sequence_parallel ? options.mesh.tp : 1;
  const MoeOptions& moe = options.model.moe;
  if (moe.num_experts > 0 && moe.drops_tokens()) batch.coupled_samples = training.micro_batch_size;
  batch.samples_at_once = training.micro_batch_size;
  batch.has_own_scales = quantizes(*options.sync.model);
  if (moe.num_experts > 0 && batch.has_own_scales) {
    batch.coupled_samples = samples_of_experts(options);
    batch.expert_ranks = options.mesh.ep * options.mesh.etp;
    batch.expert_slices = options.mesh.etp;
    batch.expert_nodes = options.mesh.dispatch_nodes;
  }
  if (moe.num_experts > 0 && moe.balances_load()) batch.coupled_samples = microbatch;
  batch.more_roundings = more_roundings_of(options);
  return batch;
}

}  // namespace

Verification::Verification(const Experiment& experiment, const std::function<void()>& on_progress) {
  const ParallelPlan& plan = experiment.plan();
  const SyncPlan& sync = plan.options().sync;
  const int ranks = plan.options().mesh.size();
  const std::shared_ptr<ReferenceAlgorithm> algorithm = make_reference_algorithm(plan, on_progress);
  if (algorithm == nullptr) {
    lines_.emplace_back(sync, plan.options().training, global_batch_of(plan.options()),
                        exact_model_of(experiment.options()), ranks, on_progress);
    return;
  }
  for (int line = 0; line < algorithm->num_lines(); ++line) {
    lines_.emplace_back(sync, algorithm, line, ranks / algorithm->num_lines());
  }
}

std::vector<Oracle*> Verification::oracles() {
  std::vector<Oracle*> all;
  for (Oracle& line : lines_) all.push_back(&line);
  return all;
}

void Verification::finish() {
  for (Oracle& line : lines_) line.finish();
}

Oracle::Errors Verification::errors() const {
  Oracle::Errors all;
  for (const Oracle& line : lines_) {
    const Oracle::Errors& errors = line.errors();
    all.gradients = worse(errors.gradients, all.gradients);
    all.parameters = worse(errors.parameters, all.parameters);
    all.optimizer_state = worse(errors.optimizer_state, all.optimizer_state);
    all.loss = worse(errors.loss, all.loss);
    if (errors.norm) all.norm = worse(*errors.norm, all.norm.value_or(0.0));
  }
  return all;
}

bool Verification::passed() const { return std::ranges::all_of(lines_, &Oracle::passed); }

// The detail of the first line that failed; otherwise of the first, for all lines.
std::string Verification::detail() const {
  const auto failed = std::ranges::find(lines_, false, &Oracle::passed);
  const bool is_one = lines_.size() == 1;
  if (failed != lines_.end()) {
    const std::string replica = "replica " + std::to_string(failed - lines_.begin());
    return (is_one ? "" : replica + ": ") + failed->detail();
  }
  const std::string text = lines_.front().detail();
  return is_one ? text : "each of " + std::to_string(lines_.size()) + " replicas: " + text;
}

Oracle::Holder holder_of(const ParallelPlan& plan, const MeshPlace& place) {
  const MeshShape& mesh = plan.options().mesh;
  const bool sharded = plan.options().zero_stage > 0;
  return {.rank = mesh.rank_of(place),
          .shard = sharded ? mesh.shard_of(place) : 0,
          .line = line_of(plan, place),
          .has_last_stage = plan.has_loss(place.pp),
          .part = plan.part(place),
          .expert_shard = sharded ? mesh.shard_of(place, WeightKind::expert) : 0};
}

}  // namespace shardsim

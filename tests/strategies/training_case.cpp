#include "tests/strategies/training_case.hpp"

#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>

#include "tests/backends/fiber_fixture.hpp"

namespace shardsim::test {

namespace {

constexpr double kNotHeld = std::numeric_limits<double>::quiet_NaN();

std::string key_of(StateKind kind, std::string_view state) {
  if (kind == StateKind::gradient) return "gradient";
  if (kind == StateKind::parameter) return "parameter";
  return std::string(state);
}

Values not_held(const Model& model) {
  Values values;
  for (const ParameterSpec& spec : model.parameters()) {
    values.emplace_back(static_cast<std::size_t>(spec.shape.numel()), kNotHeld);
  }
  return values;
}

class Recorder final : public TrainingObserver {
 public:
  Recorder(const Model& whole, ModelPart part, bool record, RankRecord& rank)
      : whole_(whole), part_(part), record_(record), rank_(rank) {}

  void step_begins(std::int64_t) override {
    if (record_) rank_.steps.emplace_back();
  }
  void gradients_ready(std::int64_t, const GradientSync& sync) override {
    keep(sync, StateKind::gradient);
  }
  void step_ends(std::int64_t, const GradientSync& sync, std::optional<double> loss) override {
    keep(sync, StateKind::parameter);
    keep(sync, StateKind::optimizer_state);
    if (record_) rank_.steps.back().loss = loss;
  }

 private:
  void keep(const GradientSync& sync, StateKind kind) {
    if (!record_) return;
    StepRecord& step = rank_.steps.back();
    const auto note = [&](const WholePiece& whole) {
      const StatePiece& piece = whole.piece;
      const auto [entry, _] =
          step.values.try_emplace(key_of(piece.kind, piece.state), not_held(whole_));
      std::vector<double>& values = entry->second.at(static_cast<std::size_t>(piece.parameter));
      for (std::int64_t i = 0; i < piece.values.numel(); ++i) {
        double& value = values.at(static_cast<std::size_t>(piece.first + i));
        if (!std::isnan(value)) throw std::logic_error("an element is shown twice");
        value = piece.values.get(i);
      }
    };
    sync.visit(kind, [&](const StatePiece& piece) { for_each_whole_piece(part_, piece, note); });
  }

  const Model& whole_;
  ModelPart part_;
  bool record_;
  RankRecord& rank_;
};

MemoryUse in_use(const MemoryLedger& ledger) {
  MemoryUse use{};
  for (std::size_t i = 0; i < use.size(); ++i)
    use.at(i) = ledger.now(static_cast<MemoryCategory>(i));
  return use;
}

// How many ranks hold each element of a kind.
int holders_of(const TrainingCase& c, const std::string& kind) {
  const bool whole = c.zero_stage == 0 || (kind == "parameter" && c.zero_stage < 3);
  return whole ? c.mesh.num_owners() : c.mesh.dp_replicate;
}

std::string layers_text(const StageSplit& split) {
  if (split.layers.empty()) {
    return std::string(" even") + (split.account_for_embedding ? " with embedding" : "") +
           (split.account_for_loss ? " with loss" : "");
  }
  std::string text;
  for (const std::int64_t layers : split.layers) text += " " + std::to_string(layers);
  return text;
}

}  // namespace

std::string describe(const TrainingCase& c) {
  std::ostringstream text;
  text << c.name << ", stage " << c.zero_stage << ", dp_replicate " << c.mesh.dp_replicate
       << " x dp_shard " << c.mesh.dp_shard << " x tp " << c.mesh.tp << " x pp " << c.mesh.pp
       << " x cp " << c.mesh.cp << " by " << static_cast<int>(c.model.context_attention) << "/"
       << c.model.ulysses_degree << ", " << c.schedule << " x" << c.num_chunks << " of"
       << layers_text(c.stage_split) << ", " << c.optimizer << ", " << c.training.steps
       << " steps of " << c.training.num_microbatches << " x " << c.training.micro_batch_size
       << ", seed " << c.training.seed << ", ignore " << c.training.ignore_fraction << ", clip "
       << c.training.max_grad_norm
       << (c.training.grad_norm_type == NormType::two ? "" : " of the largest") << ", buckets "
       << c.first_bucket_bytes << "/" << c.bucket_bytes << ", overlap " << c.sync.overlap_reduce
       << c.sync.overlap_gather << ", prefetch " << c.sync.prefetch_units << ", reshard "
       << c.sync.reshard_after_forward << ", in flight " << c.sync.reductions_in_flight
       << ", every microbatch " << c.sync.reduce_every_microbatch << ", interleaving "
       << c.world.interleaving_seed;
  return text.str();
}

ParallelOptions options_of(const TrainingCase& c) {
  return {.model = c.model,
          .mesh = c.mesh,
          .zero_stage = c.zero_stage,
          .bucket_bytes = c.bucket_bytes,
          .first_bucket_bytes = c.first_bucket_bytes,
          .schedule = c.schedule,
          .num_chunks = c.num_chunks,
          .stage_split = c.stage_split,
          .own_schedule = c.own_schedule,
          .training = c.training,
          .sync = c.sync};
}

FlatLayout layout_of(const TrainingCase& c, const Model& model) {
  return make_layout(c.zero_stage, model, model, c.mesh, c.sync.gradient_dtype, c.bucket_bytes,
                     c.first_bucket_bytes, 0, WeightKind::dense,
                     matrix_buckets_of(c.sync, c.zero_stage));
}

TrainingResult run(const TrainingCase& c) {
  const std::unique_ptr<Optimizer> optimizer = make_optimizer(c.optimizer, c.optimizer_options);
  const ParallelPlan plan(options_of(c), *optimizer);
  FiberOptions options = c.world;
  if (options.cluster.device.name != test_cluster(1).device.name) {
    options.cluster = test_cluster(c.mesh.size());
  }

  TrainingResult result;
  result.ranks.resize(static_cast<std::size_t>(c.mesh.size()));
  FiberWorld world(options);
  world.run([&](Runtime& runtime, Communicator& communicator) {
    RankRecord& record = result.ranks[static_cast<std::size_t>(communicator.rank())];
    RankState& rank = world.engine().rank(communicator.rank());
    Mesh mesh(communicator, plan.options().mesh);
    std::unique_ptr<Model> own;
    if (c.model_of_rank) own = c.model_of_rank(plan.part(mesh.place()), communicator.rank());
    {
      const std::unique_ptr<GradientSync> sync = plan.make_sync(runtime, mesh);
      record.persistent = in_use(rank.ledger());
      record.begin = rank.now();
      rank.ledger().reset_peaks();
      Recorder recorder(plan.whole(), plan.part(mesh.place()), c.record && options.has_data,
                        record);
      std::unique_ptr<GradientSync> wrapped;
      if (c.wrap_sync) wrapped = c.wrap_sync(*sync, runtime, communicator.rank());
      plan.train_rank(runtime, mesh, wrapped ? *wrapped : *sync, recorder, own.get());
    }
    record.end = rank.now();
    record.peaks = rank.ledger().category_peaks();
    if (rank.ledger().total_now() != 0) throw std::logic_error("training leaves memory behind");
  });
  for (int rank = 0; rank < c.mesh.size(); ++rank) {
    result.ranks[static_cast<std::size_t>(rank)].split = world.engine().rank(rank).split();
  }
  for (const int rank : options.traced_ranks) {
    result.traces.push_back(*world.engine().rank(rank).trace());
  }
  result.trace_hash = world.engine().trace_hash();
  result.traffic = world.traffic();
  result.sent_by_rank = world.sent_by_rank();
  return result;
}

namespace {

// The value that all holders of an element agree on.
double agreed(const TrainingCase& c, const TrainingResult& result, std::size_t step,
              const std::string& kind, std::size_t parameter, std::size_t element) {
  const auto where = [&] {
    return kind + " of parameter " + std::to_string(parameter) + ", element " +
           std::to_string(element);
  };
  double value = kNotHeld;
  int holders = 0;
  for (const RankRecord& rank : result.ranks) {
    const auto values = rank.steps.at(step).values.find(kind);
    if (values == rank.steps.at(step).values.end()) continue;  // Nothing but padding.
    const double held = values->second.at(parameter).at(element);
    if (std::isnan(held)) continue;
    if (holders++ > 0 && held != value) throw std::runtime_error("ranks disagree on " + where());
    value = held;
  }
  // Tensor-parallel ranks and stages may hold copies, each of them as often.
  const int model_parts = c.mesh.tp * c.mesh.pp;
  const int expected = holders_of(c, kind);
  if (holders > 0 && holders % expected == 0 && holders <= expected * model_parts) return value;
  throw std::runtime_error(std::to_string(holders) + " ranks hold " + where() + "; expected " +
                           std::to_string(holders_of(c, kind)));
}

bool held_by_none(const TrainingResult& result, std::size_t step, const std::string& kind,
                  std::size_t parameter) {
  for (const RankRecord& rank : result.ranks) {
    const auto values = rank.steps.at(step).values.find(kind);
    if (values == rank.steps.at(step).values.end()) continue;
    for (const double held : values->second.at(parameter)) {
      if (!std::isnan(held)) return false;
    }
  }
  return true;
}

}  // namespace

StepRecord merge(const TrainingCase& c, const TrainingResult& result, std::size_t step) {
  StepRecord merged;
  std::optional<double> known;  // To the ranks of the last stage.
  for (const RankRecord& rank : result.ranks) {
    if (!known) known = rank.steps.at(step).loss;
  }
  merged.loss = known.value();
  for (const RankRecord& rank : result.ranks) {
    const std::optional<double>& loss = rank.steps.at(step).loss;
    if (loss && loss != merged.loss) {
      throw std::runtime_error("ranks disagree on loss");
    }
    for (const auto& [kind, values] : rank.steps.at(step).values) merged.values[kind] = values;
  }
  for (auto& [kind, values] : merged.values) {
    for (std::size_t parameter = 0; parameter < values.size(); ++parameter) {
      // Muon's matrices have another state than all else; the reference knows which.
      if (c.sync.muon && held_by_none(result, step, kind, parameter)) values[parameter].clear();
      for (std::size_t i = 0; i < values[parameter].size(); ++i) {
        values[parameter][i] = agreed(c, result, step, kind, parameter, i);
      }
    }
  }
  return merged;
}

WorstError worst_error(const StepRecord& actual, const StepRecord& reference) {
  WorstError worst;
  const auto note = [&](double error, const std::string& where) {
    if (error <= worst.value) return;  // NaN counts as worse.
    worst = {std::isnan(error) ? INFINITY : error, where};
  };
  if (actual.loss != reference.loss) {
    note(std::fabs(*actual.loss - *reference.loss) / std::fabs(*reference.loss), "loss");
  }
  if (actual.values.size() != reference.values.size()) note(INFINITY, "number of kinds");
  for (const auto& [kind, expected] : reference.values) {
    double largest_of_kind = 0.0;
    for (const std::vector<double>& tensor : expected) {
      for (const double value : tensor)
        largest_of_kind = std::fmax(largest_of_kind, std::fabs(value));
    }
    const Values& values = actual.values.at(kind);
    for (std::size_t parameter = 0; parameter < expected.size(); ++parameter) {
      double largest = 1e-6 * largest_of_kind;
      for (const double value : expected[parameter]) largest = std::fmax(largest, std::fabs(value));
      for (std::size_t i = 0; i < expected[parameter].size(); ++i) {
        const double difference = std::fabs(values.at(parameter).at(i) - expected[parameter][i]);
        if (difference == 0.0) continue;
        note(difference / largest, kind + " of parameter " + std::to_string(parameter) +
                                       ", element " + std::to_string(i));
      }
    }
  }
  return worst;
}

std::string first_difference(const StepRecord& a, const StepRecord& b) {
  if (a.loss != b.loss) return "loss";
  if (a.values.size() != b.values.size()) return "number of kinds";
  for (const auto& [kind, values] : a.values) {
    const Values& others = b.values.at(kind);
    for (std::size_t parameter = 0; parameter < values.size(); ++parameter) {
      for (std::size_t i = 0; i < values[parameter].size(); ++i) {
        if (values[parameter][i] == others.at(parameter).at(i)) continue;
        std::ostringstream text;
        text.precision(17);
        text << kind << " of parameter " << parameter << ", element " << i << ": "
             << values[parameter][i] << " and " << others[parameter][i];
        return text.str();
      }
    }
  }
  return {};
}

}  // namespace shardsim::test

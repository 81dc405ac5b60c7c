#include <string_view>

#include <fmt/format.h>

#include "strategies/model/make_model.hpp"

#include "scenarios/formats/emit.hpp"
#include "scenarios/formats/torchtitan.hpp"
#include "scenarios/stage_places.hpp"

// Fields of torchtitan's ParallelismConfig and TrainingConfig (torchtitan/config), which since 2026
// are set in Python.
namespace shardsim {

namespace {

class Config {
 public:
  void note(const std::string& words) { notes_ += "# " + words + "\n"; }
  void begin(const char* name) { body_ += fmt::format("{}(\n", name); }
  template <class Value>
  void set(const char* name, const Value& value) {
    body_ += fmt::format("    {}={},\n", name, value);
  }
  void text(const char* name, std::string_view value) {
    body_ += fmt::format("    {}=\"{}\",\n", name, value);
  }
  void end() { body_ += ")\n"; }
  [[nodiscard]] std::string all() const { return notes_ + body_; }

 private:
  std::string notes_;
  std::string body_;
};

void add_pipeline(const Scenario& scenario, Config& config) {
  const ParallelismSpec& p = scenario.parallelism;
  if (p.pp == 1) return;
  config.set(torchtitan::kPipeline.theirs, p.pp);
  config.set(torchtitan::kMicrobatches, scenario.training.num_microbatches);
  const std::string_view name = schedule_row_of(p.schedule).torchtitan;
  if (name.empty()) {
    config.text(torchtitan::kSchedule.theirs, "PipelineScheduleMulti");
    config.text(torchtitan::kScheduleFile.theirs, "schedule.csv");
    config.note("PyTorch has no schedule " + p.schedule +
                ": write it with `shardsim schedule` as schedule.csv");
  } else {
    config.text(torchtitan::kSchedule.theirs, name);
  }
  const std::int64_t stages = p.pp * p.vpp;
  if (scenario.model.num_layers % stages == 0) {
    config.set(torchtitan::kLayersPerStage, scenario.model.num_layers / stages);
  }
  config.set("pipeline_parallel_first_stage_less_layers", 0);
  config.set("pipeline_parallel_last_stage_less_layers", 0);
}

void add_data_parallel(const ParallelismSpec& p, Config& config) {
  const bool shards = p.zero_stage > 0;
  config.set(torchtitan::kReplicas.theirs, shards ? p.dp_replicate : p.data_parallel_size());
  config.set(torchtitan::kShards.theirs, shards ? p.dp_shard : 1);
  if (!shards) return;
  config.text(torchtitan::kReshard.theirs, p.zero_stage == 3 ? "always" : "never");
  if (!p.sync_every_microbatch) config.set("fsdp_defer_gradient_reduction", "True");
  if (p.zero_stage < 3) {
    config.note(
        fmt::format("zero_stage {} has whole parameters at all times; torchtitan shards them "
                    "(FSDP) and with \"never\" gathers them once per step",
                    p.zero_stage));
  }
}

}  // namespace

std::string emit_torchtitan(const Scenario& scenario) {
  const ParallelismSpec& p = scenario.parallelism;
  const TrainingSpec& t = scenario.training;
  Config config;
  config.note("torchtitan: layout only; put these into your training configuration");
  config.begin("ParallelismConfig");
  add_data_parallel(p, config);
  config.set(torchtitan::kTensor.theirs, p.tp);
  if (p.tp > 1) config.set(torchtitan::kSequence.theirs, p.sequence_parallel ? "True" : "False");
  add_pipeline(scenario, config);
  if (p.cp > 1) {
    config.set(torchtitan::kContext.theirs, p.cp);
    config.note(std::string("context parallelism was planned as cp_attention ") +
                to_string(p.cp_attention) +
                ", with equal causal work on every rank: choose a load balancer");
  }
  if (p.ep > 1) config.set(torchtitan::kExperts.theirs, p.ep);
  if (p.ep > 1 && p.ep < p.tp) config.note("torchtitan wants ep to be at least tp");
  config.end();
  config.begin("TrainingConfig");
  config.set(torchtitan::kLength.theirs, scenario.model.seq_len);
  config.set(torchtitan::kLocal.theirs, t.micro_batch_size * scenario.model.seq_len);
  config.set(torchtitan::kGlobal.theirs, t.global_batch_size * scenario.model.seq_len);
  if (t.precision == DType::bf16) config.text(torchtitan::kPrecision.theirs, "bfloat16");
  if (t.grad_reduce_dtype == DType::bf16) config.text(torchtitan::kReduced.theirs, "bfloat16");
  config.end();
  if (t.recompute != Recompute::none) {
    config.note(std::string("activation checkpointing: ") + to_string(t.recompute) +
                " (a configuration class of its own in torchtitan)");
  }
  return config.all();
}

}  // namespace shardsim

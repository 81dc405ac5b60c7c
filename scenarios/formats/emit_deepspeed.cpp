#include <fmt/format.h>

#include "strategies/model/make_model.hpp"
#include "strategies/pipeline/schedule_row.hpp"

#include "scenarios/formats/emit.hpp"

// The configuration file of DeepSpeed. It is JSON, so settings that it cannot express are in a key
// that DeepSpeed does not read.
namespace shardsim {

namespace {

std::vector<std::string> notes_of(const Scenario& scenario) {
  const ParallelismSpec& p = scenario.parallelism;
  std::vector<std::string> notes;
  if (p.pp > 1) {
    notes.push_back(fmt::format("pp {}: give PipelineModule num_stages={}", p.pp, p.pp));
    if (const auto theirs = schedule_in(&ScheduleRow::deepspeed).name; p.schedule != theirs) {
      notes.push_back(
          fmt::format("DeepSpeed's pipeline runs {0}, not {1}: plan again with --fix schedule={0}",
                      theirs, p.schedule));
    }
    if (p.zero_stage > 1) {
      notes.push_back(
          "DeepSpeed's pipeline takes zero stages 0 and 1 only: plan again with --fix "
          "zero_stage=0,1");
    }
  }
  if (p.tp > 1 && p.sequence_parallel) {
    notes.emplace_back(
        "sequence_parallel was planned with tp; AutoTP does not split the tokens "
        "between regions");
  }
  if (p.cp > 1) {
    notes.push_back(
        fmt::format("cp {} was planned as {}; DeepSpeed's sequence parallelism is ulysses", p.cp,
                    to_string(p.cp_attention)));
  }
  if (p.ep > 1) notes.push_back(fmt::format("ep {}: give the MoE layer ep_size={}", p.ep, p.ep));
  if (p.dp_replicate > 1 && p.zero_stage > 0 && p.zero_stage < 3) {
    notes.push_back(
        fmt::format("dp_replicate {}: DeepSpeed shards over all data-parallel ranks at "
                    "stage {}",
                    p.dp_replicate, p.zero_stage));
  }
  if (scenario.training.recompute != Recompute::none) {
    notes.push_back(std::string("recompute ") + to_string(scenario.training.recompute) +
                    ": the model's own code calls deepspeed.checkpointing");
  }
  return notes;
}

// DeepSpeed counts buckets in elements.
std::string zero_section(const ParallelismSpec& p, std::int64_t gradient_bytes) {
  std::string text = fmt::format("{{\n    \"stage\": {},\n    \"overlap_comm\": {},\n",
                                 p.zero_stage, p.overlap_grad_reduce);
  if (p.zero_stage == 3 && p.dp_replicate > 1) {
    text += fmt::format("    \"mics_shard_size\": {},\n", p.dp_shard * p.cp);
  }
  if (p.offload_optimizer) text += "    \"offload_optimizer\": {\"device\": \"cpu\"},\n";
  if (p.offload_parameters) text += "    \"offload_param\": {\"device\": \"cpu\"},\n";
  return text +
         fmt::format("    \"reduce_bucket_size\": {}\n  }}", p.bucket_bytes / gradient_bytes);
}

}  // namespace

std::string emit_deepspeed(const Scenario& scenario) {
  const ParallelismSpec& p = scenario.parallelism;
  const TrainingSpec& t = scenario.training;
  std::string text = "{\n";
  const std::vector<std::string> notes = notes_of(scenario);
  if (!notes.empty()) {
    text += "  \"shardsim_notes\": [\n";
    for (std::size_t i = 0; i < notes.size(); ++i) {
      text += "    \"" + notes[i] + (i + 1 < notes.size() ? "\",\n" : "\"\n");
    }
    text += "  ],\n";
  }
  text += fmt::format("  \"train_batch_size\": {},\n", t.global_batch_size);
  text += fmt::format("  \"train_micro_batch_size_per_gpu\": {},\n", t.micro_batch_size);
  text += fmt::format("  \"gradient_accumulation_steps\": {},\n", t.num_microbatches);
  if (t.precision == DType::bf16) text += "  \"bf16\": {\"enabled\": true},\n";
  if (t.precision == DType::fp16) text += "  \"fp16\": {\"enabled\": true},\n";
  text += fmt::format("  \"communication_data_type\": \"{}\",\n", to_string(t.grad_reduce_dtype));
  if (p.tp > 1) text += fmt::format("  \"tensor_parallel\": {{\"autotp_size\": {}}},\n", p.tp);
  if (p.cp > 1) text += fmt::format("  \"sequence_parallel_size\": {},\n", p.cp);
  return text + "  \"zero_optimization\": " + zero_section(p, size_of(t.grad_reduce_dtype)) +
         "\n}\n";
}

}  // namespace shardsim

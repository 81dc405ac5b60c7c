#include <fmt/format.h>

#include "strategies/pipeline/schedule_row.hpp"

#include "scenarios/field_table.hpp"
#include "scenarios/stage_places.hpp"

namespace shardsim {

namespace {

bool has_stages(const Scenario& s) { return s.parallelism.pp > 1; }
template <int kLeast, int kMost>
bool at_stages(const Scenario& s) {
  return kLeast <= s.parallelism.zero_stage && s.parallelism.zero_stage <= kMost;
}
std::vector<std::string> words_of_schedules() {
  std::vector<std::string> words = {"none"};
  for (const std::string_view name : schedule_names()) words.emplace_back(name);
  words.emplace_back(kScheduleFromFile);
  return words;
}
bool cuts_samples(const Scenario& s) { return s.parallelism.cp > 1; }
bool shares_experts(const Scenario& s) { return s.parallelism.ep > 1; }
bool sends_tokens_per_node(const Scenario& s) {
  return shares_experts(s) && s.parallelism.expert_dispatch == ExpertDispatch::per_node;
}
bool chooses_exchanging_ranks(const Scenario& s) {
  return cuts_samples(s) &&
         exchanges_with_chosen(context_attention_row(s.parallelism.cp_attention));
}
// " ring: blocks of them go round. all_gather: ..."
std::string meanings_of_attentions() {
  std::string words;
  for (const ContextAttentionRow& row : context_attention_rows()) {
    words += " " + std::string(row.name) + ": " + std::string(row.meaning) + ".";
  }
  return words;
}

}  // namespace

// A table with a row per field, not a function to follow. NOLINTNEXTLINE(readability-function-size)
std::vector<Field> parallelism_fields() {
  using P = ParallelismSpec;
  const auto parallelism = [](const char* path, auto member) {
    return field(path, &Scenario::parallelism, member);
  };
  return {
      parallelism("parallelism.tp", &P::tp)
          .range(1, kTwoTo20)
          .or_else("1")
          .same_as({{"Megatron-LM", "tensor_model_parallel_size"},
                    {"torchtitan", "tensor_parallel_degree"},
                    {"DeepSpeed", "autotp_size"}})
          .doc("Tensor-parallel degree. It divides query heads, and key and value heads, or is a "
               "multiple of the latter: then ranks have copies of them."),
      parallelism("parallelism.pp", &P::pp)
          .range(1, kTwoTo20)
          .or_else("1")
          .same_as({{"Megatron-LM", "pipeline_model_parallel_size"},
                    {"torchtitan", "pipeline_parallel_degree"}})
          .doc("Pipeline stages."),
      parallelism("parallelism.cp", &P::cp)
          .range(1, kTwoTo20)
          .or_else("1")
          .same_as(
              {{"Megatron-LM", "context_parallel_size"}, {"torchtitan", "context_parallel_degree"}})
          .foreign({{"DeepSpeed", "sequence_parallel_size"}})
          .doc("Context-parallel degree: ranks that share the tokens of the same samples. Each has "
               "two of 2 cp equal runs, the i-th from either end; 2 cp must divide seq_len."),
      parallelism("parallelism.cp_attention", &P::cp_attention)
          .or_else("\"" + std::string(to_string(kDefaultContextAttention)) + "\"")
          .foreign(
              {{"Megatron-LM", "cp_comm_type"}, {"torchtitan", "context_parallel_rotate_method"}})
          .acts_when("cp is more than 1", cuts_samples)
          .doc("How queries meet the keys and values of other ranks." + meanings_of_attentions()),
      parallelism("parallelism.cp_ulysses_degree", &P::cp_ulysses_degree)
          .range(1, kTwoTo20)
          .or_auto()
          .derived("the largest that divides cp and the key and value heads of a rank and fits a "
                   "node; cp for " +
                   context_attentions_that(exchanges_with_all) + ", else 1")
          .foreign({{"Megatron-LM", "hierarchical_context_parallel_sizes"}})
          .acts_when("cp is more than 1 and cp_attention is " +
                         context_attentions_that(exchanges_with_chosen),
                     chooses_exchanging_ranks)
          .doc("Neighbours that exchange tokens for heads, at cp_attention " +
               context_attentions_that(exchanges_with_chosen) + "."),
      parallelism("parallelism.ep", &P::ep)
          .range(1, kTwoTo20)
          .or_else("1")
          .same_as({{"Megatron-LM", "expert_model_parallel_size"},
                    {"torchtitan", "expert_parallel_degree"}})
          .foreign({{"DeepSpeed", "autoep_size"}})
          .doc(
              "Expert-parallel degree: ranks that have some of a layer's experts each. It regroups "
              "dp_shard x cp x tp ranks and does not multiply them."),
      parallelism("parallelism.etp", &P::etp)
          .range(1, kTwoTo14)
          .or_else("1")
          .same_as({{"Megatron-LM", "expert_tensor_parallel_size"},
                    {"torchtitan", "expert_tensor_parallel_degree"}})
          .doc(
              "Expert-tensor-parallel degree: ranks that have slices of the same experts. ep x etp "
              "regroups dp_shard x cp x tp ranks, slices of the same experts on neighbours. "
              "Megatron-LM's own default is tp."),
      parallelism("parallelism.expert_dispatch", &P::expert_dispatch)
          .or_else("\"per_expert\"")
          .foreign({{"Megatron-LM", "moe_token_dispatcher_type"}})
          .acts_when("ep is more than 1", shares_experts)
          .doc("How tokens reach experts of other ranks. per_expert: a copy for each of a token's "
               "experts. per_node: one copy to each node that has any of them, "
               "and from there one to each rank of that node that has any, as DeepEP and HybridEP "
               "send; weighted sums come back the same way."),
      parallelism("parallelism.expert_payload", &P::expert_payload)
          .or_else("\"training\"")
          .foreign(
              {{"Megatron-LM", "moe_dispatch_fwd_dtype"}, {"Megatron-LM", "moe_combine_bwd_dtype"}})
          .acts_when("ep is more than 1 and expert_dispatch is per_node", sends_tokens_per_node)
          .doc(
              "How tokens travel to experts, and gradients of their outputs. training: in the "
              "type of the training. blockwise: in fp8, with a scale in fp32 for each 128 elements "
              "(DeepSeek-V3). mxfp8: with a power of two for each 32. Results and gradients come "
              "back in the type of the training."),
      parallelism("parallelism.vpp", &P::vpp)
          .range(1, kTwoTo14)
          .derived("2 with schedules of two chunks (" + schedules_that(goes_down_and_up, ", ") +
                   "), what schedule_file has, else 1")
          .same_as({{"Megatron-LM", "num_virtual_stages_per_pipeline_rank"},
                    {"Megatron-LM", "virtual_pipeline_model_parallel_size"}})
          .doc("Model chunks per pipeline rank, each a run of consecutive layers. Chunk c of "
               "pipeline rank r is stage c x pp + r; with " +
               schedules_that(goes_down_and_up, " and ") +
               ", rank r has stages r and 2 x pp - 1 - r."),
      parallelism("parallelism.stage_layers", &P::stage_layers)
          .in_order()
          .range(0, kTwoTo14)
          .or_auto()
          .derived("num_layers divided evenly; what remains goes to the first stages, with chunks "
                   "to the ranks it costs least")
          .foreign({{"Megatron-LM", "pipeline_model_parallel_layout"},
                    {"Megatron-LM", "decoder_first_pipeline_num_layers"},
                    {"Megatron-LM", "decoder_last_pipeline_num_layers"},
                    {"torchtitan", "module_fqns_per_model_part"}})
          .doc("Layers of each stage, pp x vpp numbers in the order of the model. The embedding "
               "rides with the first stage, the head and the loss with the last; only these may "
               "have no layer."),
      parallelism("parallelism.account_for_embedding_in_pipeline_split",
                  &P::account_for_embedding_in_pipeline_split)
          .or_else("false")
          .foreign({{"torchtitan", "pipeline_parallel_first_stage_less_layers"}})
          .acts_when("pp is more than 1", has_stages)
          .by_others()
          .doc("The even split counts the embedding as a layer: the first stage has one less."),
      parallelism("parallelism.account_for_loss_in_pipeline_split",
                  &P::account_for_loss_in_pipeline_split)
          .or_else("false")
          .foreign({{"torchtitan", "pipeline_parallel_last_stage_less_layers"}})
          .acts_when("pp is more than 1", has_stages)
          .by_others()
          .doc("The even split counts head and loss as a layer: the last stage has one less."),
      parallelism("parallelism.dp_replicate", &P::dp_replicate)
          .range(1, kTwoTo20)
          .or_else("1")
          .same_as({{"torchtitan", "data_parallel_replicate_degree"},
                    {"Megatron-LM", "num_distributed_optimizer_instances"}})
          .doc("Replicas of the sharded group; above 1 with sharding it is hybrid sharding."),
      parallelism("parallelism.dp_shard", &P::dp_shard)
          .range(1, kTwoTo20)
          .or_auto()
          .derived("the ranks that are left: ranks / (dp_replicate x tp x pp x cp)")
          .same_as({{"torchtitan", "data_parallel_shard_degree"}})
          .foreign({{"Megatron-LM", "data_parallel_size"}})
          .doc("Ranks that share, with the cp ranks of each, what zero_stage shards. At stage 0 "
               "they are replicas, too."),
      parallelism("parallelism.sequence_parallel", &P::sequence_parallel)
          .or_else("false")
          .same_as({{"torchtitan", "enable_sequence_parallel"}})
          .acts_when("tp is more than 1", [](const Scenario& s) { return s.parallelism.tp > 1; })
          .doc("Shard what lies between tensor-parallel regions (norms, residuals) by tokens."),
      parallelism("parallelism.overlap_tensor_parallel", &P::overlap_tensor_parallel)
          .or_else("false")
          .same_as({{"torchtitan", "enable_async_tensor_parallel"}})
          .foreign({{"Megatron-LM", "tp_comm_overlap"}})
          .acts_when("tp is more than 1 and sequence_parallel is true",
                     [](const Scenario& s) {
                       return s.parallelism.tp > 1 && s.parallelism.sequence_parallel;
                     })
          .doc("Linear layers compute while tokens of other ranks arrive, and while their sums "
               "leave: token shards go round the tp ranks, one hop under each part of a product."),
      parallelism("parallelism.schedule", &P::schedule)
          .one_of(words_of_schedules())
          .derived("none without pipeline stages, " + std::string(default_schedule(true).name) +
                   " where vpp is more than 1, else " + std::string(default_schedule().name))
          .same_as({{"torchtitan", "pipeline_parallel_schedule"}})
          .doc("Pipeline schedule: in which order a stage runs its microbatches forward and "
               "backward. \"file\": as schedule_file says."),
      parallelism("parallelism.schedule_file", &P::schedule_file)
          .or_else("\"\"")
          .foreign({{"torchtitan", "pipeline_parallel_schedule_csv"}})
          .acts_when("schedule is \"file\"",
                     [](const Scenario& s) { return s.parallelism.schedule == kScheduleFromFile; })
          .doc("A schedule as a CSV file of PyTorch's pipelining, relative to the scenario's "
               "folder: a line per pipeline rank, cells such as 2F0, 1B3 or 0SEND_F1."),
      parallelism("parallelism.delay_weight_gradients", &P::delay_weight_gradients)
          .or_else("false")
          .same_as({{"Megatron-LM", "delay_wgrad_compute"}})
          .acts_when("ep is more than 1, zero_stage is 0, 1 or 2 and schedule has blocks (" +
                         schedules_that(runs_blocks) + ")",
                     takes_turns)
          .doc("In a block of a forward and a backward, gradients of weights are computed where "
               "the backward would wait for tokens of experts. The rest follows at its end. What "
               "they need stays in memory until then."),
      parallelism("parallelism.rank_order", &P::rank_order)
          .one_of({"tp-dp-pp", "dp-tp-pp"})
          .or_else("\"tp-dp-pp\"")
          .acts_when("tp is more than 1", [](const Scenario& s) { return s.parallelism.tp > 1; })
          .doc("Axes from the fastest to the slowest: which ranks are neighbours on a node."),
      parallelism("parallelism.zero_stage", &P::zero_stage)
          .range(0, 3)
          .or_else("0")
          .foreign({{"DeepSpeed", "stage"},
                    {"DeepSpeed", "zero_optimization"},
                    {"Megatron-LM", "use_distributed_optimizer"}})
          .doc(
              "State that is sharded over dp_shard x cp. 0: none (DDP). 1: optimizer state. 2: and "
              "gradients. 3: and parameters (FSDP)."),
      parallelism("parallelism.bucket_bytes", &P::bucket_bytes)
          .range(1, kTwoTo40)
          .unit("bytes")
          .or_else("26214400")
          .foreign({{"PyTorch", "bucket_cap_mb"},
                    {"DeepSpeed", "reduce_bucket_size"},
                    {"Megatron-LM", "ddp_bucket_size"}})
          .acts_when("zero_stage is 0, 1 or 2", at_stages<0, 2>)
          .doc(
              "Gradients are reduced in buckets of at most this size (a larger gradient has one of "
              "its own). The default is PyTorch's 25 MiB. Stage 3 reduces by unit instead."),
      parallelism("parallelism.first_bucket_bytes", &P::first_bucket_bytes)
          .range(1, kTwoTo40)
          .unit("bytes")
          .derived("1048576 (PyTorch's 1 MiB), or bucket_bytes if that is less")
          .acts_when("zero_stage is 0, 1 or 2", at_stages<0, 2>)
          .doc("Size of the bucket that is ready first; small, so that reducing starts early."),
      parallelism("parallelism.overlap_grad_reduce", &P::overlap_grad_reduce)
          .or_else("true")
          .same_as({{"DeepSpeed", "overlap_comm"}})
          .doc("Reduce gradients while backward goes on. false: stages 0 and 1 reduce after it; 2 "
               "and 3 within it, waiting each time, since they free what is reduced."),
      parallelism("parallelism.overlap_param_gather", &P::overlap_param_gather)
          .or_else("true")
          .acts_when("zero_stage is 1, 2 or 3", at_stages<1, 3>)
          .doc("Stage 3: gather units while others compute. 1 and 2: gather a bucket while the "
               "optimizer updates later ones; the step ends after its last gather."),
      parallelism("parallelism.prefetch_units", &P::prefetch_units)
          .range(0, kTwoTo14)
          .or_else("1")
          .foreign({{"DeepSpeed", "stage3_prefetch_bucket_size"},
                    {"PyTorch", "forward_prefetch"},
                    {"PyTorch", "backward_prefetch"}})
          .acts_when("zero_stage is 3 and overlap_param_gather is true",
                     [](const Scenario& s) {
                       return s.parallelism.zero_stage == 3 && s.parallelism.overlap_param_gather;
                     })
          .doc("Stage 3: units gathered ahead of their use."),
      parallelism("parallelism.reshard_after_forward", &P::reshard_after_forward)
          .or_else("true")
          .same_as({{"torchtitan", "fsdp_reshard_after_forward"}})
          .acts_when("zero_stage is 3", at_stages<3, 3>)
          .doc("Stage 3: free a unit's parameters after forward and gather them again for "
               "backward."),
      parallelism("parallelism.reductions_in_flight", &P::reductions_in_flight)
          .range(1, 1024)
          .or_else("1")
          .acts_when("zero_stage is 2 or 3", at_stages<2, 3>)
          .doc("Reductions that may be under way before backward waits for the oldest."),
      parallelism("parallelism.sync_every_microbatch", &P::sync_every_microbatch)
          .derived("true at stages 2 and 3 (as DeepSpeed and FSDP do), else false")
          .foreign({{"PyTorch", "no_sync"}})
          .doc("Reduce gradients after every microbatch instead of once per step. Stages 0 and 1 "
               "always reduce once."),
      parallelism("parallelism.offload_optimizer", &P::offload_optimizer)
          .or_else("false")
          .foreign({{"Megatron-LM", "optimizer_cpu_offload"}, {"PyTorch", "cpu_offload"}})
          .doc("Keep optimizer state and master weights in host memory. They visit the device for "
               "the update, over system.device.host_bandwidth_gb_per_s."),
      parallelism("parallelism.offload_gradients", &P::offload_gradients)
          .or_else("false")
          .doc("Stages 2 and 3: keep reduced gradients in host memory, too."),
      parallelism("parallelism.offload_parameters", &P::offload_parameters)
          .or_else("false")
          .foreign({{"DeepSpeed", "offload_param"}, {"torchtitan", "enable_cpu_offload"}})
          .doc("Stage 3: keep the shards of weights in host memory, too."),
      parallelism("parallelism.offload_layers", &P::offload_layers)
          .range(0, kTwoTo14)
          .or_else("0")
          .foreign({{"Megatron-LM", "cpu_offloading_num_layers"}})
          .doc("Activations of the first so many layers of each model chunk are in host memory "
               "from forward to backward. They go and come while other layers compute."),
      parallelism("parallelism.offload_modules", &P::offload_modules)
          .or_else("\"everything\"")
          .acts_when("offload_layers is more than 0",
                     [](const Scenario& s) { return s.parallelism.offloads_activations(); })
          .doc("Parts of these layers whose inputs go, with commas between them. everything: all "
               "that a layer keeps. attn_norm, mlp_norm: the stream ahead of both branches. "
               "qkv_linear, core_attn, attn_proj: attention's input, its queries, keys and values, "
               "and its output. expert_fc1, moe_act: what experts read, and their gate and up."),
      parallelism("parallelism.offload_min_elements", &P::offload_min_elements)
          .range(1, kTwoTo31)
          .unit("elements")
          .or_else("1048576")
          .foreign({{"Megatron-LM", "min_offloaded_tensor_size"}})
          .acts_when("offload_layers is more than 0",
                     [](const Scenario& s) { return s.parallelism.offloads_activations(); })
          .doc("Smaller activations stay on the device."),
  };
}

}  // namespace shardsim

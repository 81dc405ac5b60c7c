#include <set>

#include <catch2/catch.hpp>

#include "scenarios/field.hpp"

#include "tests/scenarios/mixer_settings.hpp"
#include "tests/scenarios/precision_settings.hpp"
#include "tests/scenarios/support.hpp"

using namespace shardsim;
using namespace shardsim::testing;

namespace {

std::string mlp_text() {
  return valid_text_with(
      "\"llama\", \"num_layers\": 2, \"hidden_size\": 24, \"ffn_hidden_size\": 40,\n    "
      "\"num_attention_heads\": 4, \"num_query_groups\": 2, \"vocab_size\": 53, \"seq_len\": 9",
      "\"mlp\", \"num_layers\": 2, \"hidden_size\": 24, \"vocab_size\": 5");
}

std::string text_without_width() { return valid_text_with(" \"ffn_hidden_size\": 40,", ""); }

std::string fp16_text() { return valid_text_with("\"fp64\": 10", "\"fp64\": 10, \"fp16\": 10"); }

struct Case {
  std::string flag;                         // "parallelism.prefetch_units=2"
  std::vector<std::string> without;         // settings beside which it has no effect
  std::vector<std::string> with;            // settings beside which it has one
  std::string (*text)() = valid_text;       // of the first
  std::string (*with_text)() = valid_text;  // of the second
};

std::vector<Case> cases() {
  const auto stage = [](const char* number) {
    return std::vector<std::string>{std::string("parallelism.zero_stage=") + number};
  };
  const auto optimizer = [](const char* name) {
    return std::vector<std::string>{std::string("training.optimizer=") + name};
  };
  const auto fp16 = [](const char* loss_scaling) {
    return std::vector<std::string>{"training.precision=fp16",
                                    std::string("training.loss_scaling=") + loss_scaling};
  };
  const auto apart = [](const char* kind) {
    return std::vector<std::string>{std::string("parallelism.data_parallel=") + kind,
                                    "parallelism.dp_replicate=2"};
  };
  const auto two_steps = [](std::vector<std::string> flags) {
    flags.emplace_back("execution.steps=2");
    return flags;
  };
  const auto compressed = [](const char* kind) {
    return std::vector<std::string>{std::string("parallelism.gradient_compression=") + kind,
                                    "parallelism.zero_stage=0"};
  };
  const std::vector<std::string> failures = {"faults.gpu_mtbf_hours=9", "faults.restart_s=9",
                                             "faults.checkpoint_write_s=9"};
  const std::vector<std::string> draws = {failures[0], failures[1], failures[2],
                                          "faults.draws.count=9"};
  const std::vector<std::string> nccl = {"system.network_model=nccl",
                                         "system.device.name=NVIDIA H100", "system.nodes=2",
                                         "system.intra_node.bandwidth_gb_per_s=450"};
  const std::vector<std::string> elastic = {"parallelism.data_parallel=elastic",
                                            "parallelism.zero_stage=0"};
  const std::vector<std::string> offloads = {"parallelism.offload_layers=1",
                                             "system.device.host_bandwidth_gb_per_s=9"};
  const std::vector<std::string> fp8 = products_in_fp8();
  const std::vector<std::string> experts = {"model.num_experts=4"};
  const std::vector<std::string> blocks = {experts[0], "parallelism.ep=2",
                                           "parallelism.schedule=combined_1f1b"};
  const std::vector<std::string> grouped = {experts[0], "model.moe_router_num_groups=2"};
  const std::string unturned = R"(model.layers=[{"rotary": false, "repeats": 2}])";
  std::vector<std::string> unturned_latents = latent_attention();
  unturned_latents.push_back(unturned);
  std::vector<Case> all = {
      {"parallelism.bucket_bytes=2000000", stage("3"), stage("2")},
      {"parallelism.first_bucket_bytes=4096", stage("3"), stage("0")},
      {"parallelism.prefetch_units=2", stage("2"), stage("3")},
      {"parallelism.prefetch_units=2",
       {"parallelism.zero_stage=3", "parallelism.overlap_param_gather=false"},
       stage("3")},
      {"parallelism.reshard_after_forward=false", stage("2"), stage("3")},
      {"parallelism.reductions_in_flight=2", stage("1"), stage("2")},
      {"parallelism.overlap_param_gather=false", stage("0"), stage("1")},
      {"parallelism.sequence_parallel=true", {}, {"parallelism.tp=2", "model.seq_len=8"}},
      {"parallelism.rank_order=dp-tp-pp", {}, {"parallelism.tp=2"}},
      {"parallelism.cp_attention=all_gather", {}, {"parallelism.cp=2", "model.seq_len=8"}},
      {"parallelism.cp_ulysses_degree=2",
       {"parallelism.cp=4", "model.seq_len=8"},
       {"parallelism.cp=4", "model.seq_len=8", "parallelism.cp_attention=two_level"}},
      {"parallelism.expert_dispatch=per_node", experts, {experts[0], "parallelism.ep=2"}},
      {"parallelism.delay_weight_gradients=true", experts, blocks},
      {"parallelism.expert_payload=mxfp8",
       {"model.num_experts=4", "model.hidden_size=64", "parallelism.ep=2"},
       {"model.num_experts=4", "model.hidden_size=64", "parallelism.ep=2",
        "parallelism.expert_dispatch=per_node"}},
      {"parallelism.account_for_loss_in_pipeline_split=true", {}, {"parallelism.pp=2"}},
      {"parallelism.account_for_embedding_in_pipeline_split=true",
       {},
       {"parallelism.pp=2", "model.num_layers=3"}},  // [1, 2] instead of [2, 1].
      {"parallelism.schedule_file=tests/scenarios/data/1f1b.csv",
       {"parallelism.pp=2"},
       {"parallelism.pp=2", "parallelism.schedule=file"}},
      {"parallelism.sync_period=2", {}, two_steps(apart("local_sgd"))},
      {"parallelism.sync_period=2", {}, two_steps(apart("diloco"))},
      {"parallelism.outer_learning_rate=0.5", apart("local_sgd"), apart("diloco")},
      {"parallelism.outer_momentum=0.5", apart("local_sgd"), apart("diloco")},
      {"parallelism.max_staleness=2",
       {},
       {"parallelism.data_parallel=async_sgd", "execution.steps=3"}},
      {"parallelism.elastic_members=[2]", {}, elastic},
      {"parallelism.elastic_min=2", {}, elastic},
      {"parallelism.elastic_max=2000", {}, elastic},
      {"parallelism.compression_ratio=0.05", compressed("int8"), compressed("top_k")},
      {"parallelism.compression_block_size=8", compressed("top_k"), compressed("int8")},
      {"parallelism.error_feedback=false", {}, compressed("int8")},
      {"training.beta1=0.8", optimizer("rmsprop"), optimizer("adam")},
      {"training.beta2=0.8", optimizer("sgd"), optimizer("adamw")},
      {"training.momentum=0.8", optimizer("adam"), optimizer("momentum")},
      {"training.rms_alpha=0.8", optimizer("adam"), optimizer("rmsprop")},
      {"training.epsilon=0.1", optimizer("momentum"), optimizer("rmsprop")},
      {"training.epsilon=0.1",
       {"training.optimizer=muon", "training.muon_scalar_optimizer=lion"},
       optimizer("muon")},
      {"training.muon_scalar_optimizer=lion", optimizer("adam"), optimizer("muon")},
      {"training.optimizer_state_dtype=bf16", optimizer("sgd"), optimizer("lion")},
      {"training.recompute_modules=mlp", {}, {"training.recompute=selective"}},
      {"parallelism.overlap_tensor_parallel=true",
       {"parallelism.tp=2", "model.seq_len=8"},
       {"parallelism.tp=2", "model.seq_len=8", "parallelism.sequence_parallel=true"}},
      {"parallelism.offload_modules=core_attn", {}, offloads},
      {"parallelism.offload_min_elements=1", {}, offloads},
      {"training.bf16_layers_at_start=1", {}, fp8},
      {"training.quantized_parameters=true", {}, fp8},
      {"training.amax_history_len=2", fp8, delayed_scales()},
      {"training.amax_compute=max", delayed_scales(), delayed_scales_with_data()},
      {"training.amax_update=microbatch", fp8, delayed_scales()},
      {"training.bf16_layers_at_end=1", {}, fp8},
      {"training.muon_momentum=0.8", optimizer("momentum"), optimizer("muon")},
      {"training.muon_nesterov=false", {}, optimizer("muon")},
      {"training.muon_num_ns_steps=7", {}, optimizer("muon")},
      {"training.muon_coefficient_type=simple", {}, optimizer("muon")},
      {"training.muon_scale_mode=shape_scaling", {}, optimizer("muon")},
      {"training.muon_extra_scale_factor=0.2", {}, optimizer("muon")},
      {"training.muon_tp_mode=blockwise", {}, optimizer("muon")},
      {"training.muon_dp_mode=slices", {}, optimizer("muon")},
      {"training.muon_dp_mode=slices",
       {"training.optimizer=muon", "parallelism.zero_stage=0"},
       optimizer("muon")},
      {"training.grad_norm_type=inf", {}, {"training.max_grad_norm=1"}},
      {"training.loss_scale=8", {}, fp16("dynamic"), valid_text, fp16_text},
      {"training.loss_scale=8", {}, fp16("static"), valid_text, fp16_text},
      {"training.loss_scale_growth_interval=8", fp16("static"), fp16("dynamic"), fp16_text,
       fp16_text},
      {"training.loss_scale_hysteresis=8", fp16("static"), fp16("dynamic"), fp16_text, fp16_text},
      {"model.ffn_hidden_size=48",
       {"model.num_experts=4", "model.moe_ffn_hidden_size=8"},
       {"name=x"},
       text_without_width},
      {"model.mlp_bias=true",
       {"model.num_experts=4", "model.moe_ffn_hidden_size=8"},
       {"name=x"},
       text_without_width},
      {"model.mlp_output_scale=0.5",
       {"model.num_experts=4", "model.moe_ffn_hidden_size=8"},
       {"name=x"},
       text_without_width},
      {"model.mlp_gate_scale=0.5", {"model.activation=squared_relu"}, {"name=x"}},
      {"cost.usd_per_gpu_hour=2", {}, {"training.tokens_total=1e9"}},
      {"output.trace_ranks=[0]", {}, {"output.trace=x.pftrace"}},
      {"model.rope_theta=5", {}, {"name=x"}, gpt_text, valid_text},
      {"model.norm_epsilon=0.1", {}, {"name=x"}, mlp_text, gpt_text},
      {"model.query_temperature_scale=0.1", {}, {unturned}},
      {"model.query_temperature_scale=0.1", unturned_latents, {unturned}},
      {"model.query_temperature_floor=4",
       {unturned},
       {unturned, "model.query_temperature_scale=0.1"}},
      {"model.swiglu_limit=5", {}, {"model.activation=clamped_swiglu"}},
      {"model.max_position_embeddings=99", {}, {"name=x"}, valid_text, gpt_text},
      {"model.q_lora_rank=7", {}, latent_attention()},
      {"model.qk_nope_head_dim=3", {}, latent_attention()},
      {"model.qk_rope_head_dim=4", {}, latent_attention()},
      {"model.mtp_loss_scaling_factor=0.2", {}, {"model.mtp_num_layers=1"}},
      {"model.num_experts_per_token=3", {}, {"model.num_experts=4"}},
      {"model.moe_ffn_hidden_size=8", {}, {"model.num_experts=4", "model.first_dense_layers=1"}},
      {"model.moe_latent_size=8", {}, {"model.num_experts=4"}},
      {"model.num_shared_experts=1", {}, {"model.num_experts=4"}},
      {"model.first_dense_layers=1", {}, {"model.num_experts=4"}},
      {"model.moe_capacity_factor=1.5", {}, {"model.num_experts=4"}},
      {"model.moe_aux_loss_coeff=0.1", {}, {"model.num_experts=4"}},
      {"model.moe_routing=uniform", {}, {"model.num_experts=4"}},
      {"model.moe_expert_bias=true", {}, {"model.num_experts=4"}},
      {"model.moe_shared_ffn_hidden_size=8", {}, {"model.num_experts=4"}},
      {"model.moe_router_score=sigmoid", {}, {"model.num_experts=4"}},
      {"model.moe_router_normalised=false", {}, {"model.num_experts=4"}},
      {"model.moe_router_scaling_factor=2", {}, {"model.num_experts=4"}},
      {"model.moe_router_bias_update_rate=0.001", {}, {"model.num_experts=4"}},
      {"model.moe_router_num_groups=2", {}, {"model.num_experts=4"}},
      {"model.moe_router_logit_bias=true", {}, {"model.num_experts=4"}},
      {"model.moe_z_loss_coeff=0.1", {}, {"model.num_experts=4"}},
      {"model.moe_weight_on_input=true",
       {},
       {"model.num_experts=4", "model.num_experts_per_token=1",
        "model.moe_router_normalised=false"}},
      {"model.moe_shared_gate=true", {}, {"model.num_experts=4", "model.num_shared_experts=1"}},
      {"model.moe_router_group_topk=2", experts, grouped},
      {"model.moe_router_group_score=maximum", experts, grouped},
      {"model.moe_skew=2",
       {"model.num_experts=4"},
       {"model.num_experts=4", "model.moe_routing=skewed"}},
      {"model.moe_popularity_file=scenarios/routing/eight-experts.json",
       {"model.num_experts=8"},
       {"model.num_experts=8", "model.moe_routing=file"}},
      {"system.device.kernels=a100-sxm",
       {"system.kernel_model=roofline"},
       {"system.kernel_model=shapes"}},
      {"system.attention_library=flash2",
       {"system.kernel_model=roofline"},
       {"system.device.kernels=a100-sxm"}},
      {"system.overlap_slows_computing=false", {}, {"system.device.kernels=a100-sxm"}},
      {"system.cublas_workspace_config=:4096:8", {}, {"system.device.name=NVIDIA H100"}},
      {"system.cuda_launch_blocking=true", {}, {"system.host_us_per_kernel=5"}},
      {"system.cuda_graphs=full_iteration", {}, {"system.host_us_per_kernel=5"}},
      {"system.device.power_w=400", {}, {"system.device.power_limit_w=300"}},
      {"system.gpu_generation=hopper", {}, nccl},
      {"system.cpu_vendor=amd", {}, nccl},
      {"system.nccl_version=2.28.9", {}, nccl},
      {"system.nics_per_node=4", {}, nccl},
      {"system.nodes_per_pod=2", {}, nccl},
      {"system.oversubscription=2", {}, nccl},
      {"system.pcie_gb_per_s=30", {}, nccl},
      {"system.intra_node.pair_gb_per_s=30", nccl, {"system.network_model=alpha_beta"}},
      {"execution.reduction_order=ring", {}, {"execution.tensors=real"}},
      {"execution.engine=run", {"execution.tensors=real"}, {"execution.tensors=meta"}},
      {"execution.fold=auto", {"execution.tensors=real"}, {"execution.tensors=meta"}},
      {"execution.memory_margin=0.1", {"execution.tensors=real"}, {"execution.tensors=meta"}},
      {"execution.buffered_sends=true", {}, {"parallelism.pp=2"}},
      {"faults.observed_failures=9", {}, failures},
      {"faults.checkpoint_interval_s=9", {}, failures},
      {"faults.checkpoint_write_s=9", {}, {"faults.gpu_mtbf_hours=9", "faults.restart_s=9"}},
      {"faults.checkpoint_gb_per_s=9", {}, {"faults.gpu_mtbf_hours=9", "faults.restart_s=9"}},
      {"faults.detection_s=9", {}, failures},
      {"faults.draws.seed=9", {}, draws},
      {"faults.draws.training_days=9", failures, draws},
      {"faults.restart_s=9", {}, {"faults.node_mtbf_hours=9", "faults.checkpoint_write_s=9"}},
      {"execution.buffered_sends=true",
       {"parallelism.cp=2", "model.seq_len=8", "parallelism.cp_attention=all_gather"},
       {"parallelism.cp=2", "model.seq_len=8"}},
  };
  for (const std::string& choice : recurrent_choices()) {
    all.push_back({choice, {}, recurrent_layers()});
  }
  return all;
}

}  // namespace

TEST_CASE("a field that is written and has no effect is a warning that names field and reason") {
  std::set<std::string> covered;
  for (const Case& c : cases()) {
    INFO(c.flag);
    const std::string path = c.flag.substr(0, c.flag.find('='));
    covered.insert(path);
    std::vector<std::string> flags = c.without;
    flags.push_back(c.flag);
    const std::string prefix = path + " has no effect here: it acts only when ";
    const std::vector<std::string> warnings = loaded(c.text(), flags).warnings;
    REQUIRE_FALSE(warnings.empty());
    CHECK(warnings.back().rfind(prefix, 0) == 0);
    CHECK(warnings.back().size() > prefix.size());
    CHECK(loaded(c.text(), c.without).warnings.size() == warnings.size() - 1);
    REQUIRE_FALSE(c.with.empty());
    flags = c.with;
    flags.push_back(c.flag);
    CHECK(loaded(c.with_text(), flags).warnings.empty());
  }
  for (const Field& field : field_table()) {
    INFO(field.path);
    CHECK((field.acts != nullptr) == !field.acts_words.empty());
    CHECK((field.acts != nullptr) == (covered.count(field.path) > 0));
  }
}

TEST_CASE("the file is warned about as a flag is, and a preset is not") {
  const Scenario file = loaded(valid_text_with("\"zero_stage\": 1", "\"prefetch_units\": 2"));
  REQUIRE(file.warnings.size() == 1);
  CHECK(file.warnings[0].rfind("parallelism.prefetch_units has no effect", 0) == 0);
  const std::string text =
      R"({"schema_version": 1, "model": "llama3-8b", "system": {"preset": "dgx-h100", "nodes": 1},
          "training": {"global_batch_size": 8}})";
  CHECK(loaded(text).warnings.empty());
  CHECK(loaded(text, {"model.max_position_embeddings=9000"}).warnings.size() == 1);
}

TEST_CASE("what would be so anyway is no choice: a default, a preset's value, a derived one") {
  const std::string text =
      R"({"schema_version": 1, "model": "llama3-8b", "system": {"preset": "dgx-h100", "nodes": 1},
          "training": {"global_batch_size": 8}})";
  CHECK(loaded(text, {"model.max_position_embeddings=8192"}).warnings.empty());
  CHECK(loaded(text, {"parallelism.prefetch_units=1"}).warnings.empty());
  CHECK(loaded(text, {"parallelism.zero_stage=3", "parallelism.first_bucket_bytes=1048576"})
            .warnings.empty());
  CHECK(loaded(text, {"parallelism.zero_stage=3", "parallelism.first_bucket_bytes=1048577"})
            .warnings.size() == 1);
}

TEST_CASE("whose reads a run notes is what somebody chose") {
  const std::string text =
      R"({"schema_version": 1, "model": "llama3-8b",
          "system": {"preset": "dgx-h100", "nodes": 1, "intra_node": {"latency_us": 77}},
          "training": {"global_batch_size": 8, "learning_rate": 0.5, "epsilon": 1e-8}})";
  using Paths = std::vector<std::string>;
  CHECK(loaded(text).chosen == Paths{"system.intra_node.latency_us", "training.learning_rate"});
  // A required field is no choice, unless a flag changes it.
  CHECK(loaded(valid_text()).chosen == Paths{});
  CHECK(loaded(valid_text(), {"system.device.kernel_launch_us=7"}).chosen ==
        Paths{"system.device.kernel_launch_us"});
}

TEST_CASE("a schedule of model chunks without any warns, and says what it then is") {
  const auto warnings = [](const std::string& schedule, const char* chunks) {
    return loaded(valid_text(),
                  {"parallelism.pp=2", "model.num_layers=4", "parallelism.schedule=" + schedule,
                   std::string("parallelism.vpp=") + chunks})
        .warnings;
  };
  for (const auto& [schedule, is] :
       {std::pair{"interleaved_1f1b",
                  "it then idles as 1f1b does, with more activations in flight"},
        {"looped_bfs", "it then is gpipe"}}) {
    const std::vector<std::string> found = warnings(schedule, "1");
    REQUIRE(found.size() == 1);
    CHECK(found[0] == std::string("parallelism.schedule is ") + schedule +
                          ", which idles less by running several model chunks per rank, but "
                          "parallelism.vpp is 1: " +
                          is + "; set parallelism.vpp to 2 or more");
    CHECK(warnings(schedule, "2").empty());
  }
  for (const char* schedule : {"1f1b", "gpipe", "zb_h1"}) CHECK(warnings(schedule, "1").empty());
}

#include <string>
#include <vector>

#include "tests/effect/settings.hpp"

namespace shardsim::test {

std::vector<Home> homes() {
  const std::vector<std::string> half = {"training.precision=fp16",
                                         "system.device.peak_tflops.fp16=100"};
  const std::vector<std::string> constant = {half[0], half[1], "training.loss_scaling=static"};
  const std::vector<std::string> fp8 = {"training.precision=fp8"};
  const std::string exact = "training.precision=fp64";
  const std::vector<std::string> delayed = {exact, "training.fp8_recipe=delayed",
                                            "training.amax_history_len=4", "execution.steps=4"};
  const std::vector<std::string> delayed_here = {delayed[0], delayed[1], delayed[2], delayed[3],
                                                 "system.device.peak_tflops.fp8=200"};
  const std::vector<std::string> latent = {exact,
                                           "model.num_query_groups=4",
                                           "model.kv_lora_rank=6",
                                           "model.qk_nope_head_dim=4",
                                           "model.qk_rope_head_dim=2",
                                           "model.value_head_dim=4"};
  const std::vector<std::string> muon = {"training.optimizer=muon", exact,
                                         "parallelism.zero_stage=1"};
  const std::vector<std::string> diloco = {exact, "parallelism.data_parallel=diloco",
                                           "parallelism.dp_replicate=2"};
  const std::vector<std::string> plain = {"parallelism.zero_stage=0", exact, "parallelism.tp=1"};
  const std::vector<std::string> top_k = {plain[0], plain[1], plain[2],
                                          "parallelism.gradient_compression=top_k"};
  const std::vector<std::string> int8 = {plain[0], plain[1], plain[2],
                                         "parallelism.gradient_compression=int8"};
  const std::vector<std::string> elastic = {plain[0], plain[1], plain[2],
                                            "parallelism.data_parallel=elastic"};
  const std::vector<std::string> failures = {"faults.gpu_mtbf_hours=1e4", "faults.restart_s=600",
                                             "faults.checkpoint_write_s=60"};
  const std::string some = R"([{"probability": 0.05, "slowdown": 1.5}])";
  const std::string spread =
      R"([{"probability": 0.4, "slowdown": 1.5, "distribution": "uniform", "spread": 0.1}])";
  const std::vector<std::string> draws = {"faults.draws.count=8"};
  const std::vector<std::string> drawn = {draws[0], "faults.draws.stragglers=" + some};
  const std::vector<std::string> drawn_failures = {failures[0], failures[1], failures[2], draws[0]};
  const std::vector<std::string> computing = {draws[0],
                                              "faults.draws.compute_jitter.distribution=uniform"};
  const std::vector<std::string> communicating = {
      draws[0], "faults.draws.communication_jitter.distribution=uniform"};
  const std::string four = "model.num_experts_per_token=4";
  const std::vector<std::string> routed = {exact, "parallelism.tp=1", "model.num_experts=8", four,
                                           "model.moe_ffn_hidden_size=8"};
  const auto beside = [](std::vector<std::string> flags, std::vector<std::string> more) {
    flags.insert(flags.end(), more.begin(), more.end());
    return flags;
  };
  const std::vector<std::string> sigmoid = beside(routed, {"model.moe_router_score=sigmoid"});
  const std::vector<std::string> grouped = beside(sigmoid, {"model.moe_router_num_groups=4"});
  const std::vector<std::string> two_of_four = beside(grouped, {"model.moe_router_group_topk=2"});
  const std::vector<std::string> shared = beside(routed, {"model.num_shared_experts=1"});
  const std::vector<std::string> delta = {exact,
                                          "parallelism.tp=1",
                                          "model.layers_cycle=true",
                                          R"(model.layers=[{"mixer": "delta_net"}, {}])",
                                          "model.linear_num_key_heads=2",
                                          "model.linear_num_value_heads=4",
                                          "model.linear_key_head_dim=4",
                                          "model.linear_value_head_dim=6"};
  const std::vector<std::string> mamba = {exact,
                                          "parallelism.tp=1",
                                          "model.layers_cycle=true",
                                          R"(model.layers=[{"mixer": "mamba"}, {}])",
                                          "model.mamba_num_heads=4",
                                          "model.mamba_head_dim=4",
                                          "model.mamba_state_size=6"};
  const std::vector<std::string> unturned = {exact, "model.layers_cycle=true",
                                             R"(model.layers=[{"rotary": false}])"};
  const std::vector<std::string> growing = beside(unturned, {"model.query_temperature_scale=0.5"});
  return {
      {"model.kv_lora_rank", "verify", {latent, "", "8"}},
      {"model.q_lora_rank", "verify", {latent, "", "6"}},
      {"model.first_dense_layers", "experts", {{"model.ffn_hidden_size=512"}, "", "1"}},
      {"model.qk_nope_head_dim", "verify", {latent, "", "3"}},
      {"model.qk_rope_head_dim", "verify", {latent, "", "4"}},
      {"model.swiglu_limit", "verify", {{exact, "model.activation=clamped_swiglu"}, "", "0.001"}},
      {"model.mtp_loss_scaling_factor", "verify", {{exact, "model.mtp_num_layers=1"}, "", "0.5"}},
      {"model.linear_num_key_heads", "verify", {delta, "", "4"}},
      {"model.linear_num_value_heads", "verify", {delta, "", "8"}},
      {"model.linear_key_head_dim", "verify", {delta, "", "3"}},
      {"model.linear_value_head_dim", "verify", {delta, "", "3"}},
      {"model.linear_conv_kernel", "verify", {delta, "", "2"}},
      {"model.mamba_num_heads", "verify", {mamba, "", "8"}},
      {"model.mamba_head_dim", "verify", {mamba, "", "3"}},
      {"model.mamba_num_groups", "verify", {mamba, "", "2"}},
      {"model.mamba_state_size", "verify", {mamba, "", "3"}},
      {"model.mamba_conv_kernel", "verify", {mamba, "", "2"}},
      {"model.mamba_chunk_size", "verify", {mamba, "", "2"}},
      {"model.layers[].rope_theta",
       "verify",
       {{exact, "model.layers_cycle=true"}, "[{}]", R"([{"rope_theta": 50}])"}},
      {"model.value_scale", "verify", {{exact}, "", "0.7"}},
      {"model.moe_latent_size", "experts", {{}, "", "8"}},
      {"model.mamba_norm", "verify", {mamba, "", "false"}},
      {"model.mamba_z_scale", "verify", {mamba, "", "0.7"}},
      {"model.mamba_x_scale", "verify", {mamba, "", "0.7"}},
      {"model.mamba_b_scale", "verify", {mamba, "", "0.7"}},
      {"model.mamba_c_scale", "verify", {mamba, "", "0.7"}},
      {"model.mamba_dt_scale", "verify", {mamba, "", "0.7"}},
      {"model.mamba_output_scale", "verify", {mamba, "", "0.7"}},
      {"model.mlp_gate_scale", "verify", {{exact}, "", "0.7"}},
      {"model.mlp_output_scale", "verify", {{exact}, "", "0.7"}},
      {"model.query_temperature_scale", "verify", {unturned, "", "0.5"}},
      {"model.query_temperature_floor", "verify", {growing, "4", "3"}},
      {"model.moe_router_score", "verify", {routed, "", "sigmoid"}},
      {"model.moe_router_normalised", "verify", {routed, "", "false"}},
      {"model.moe_router_scaling_factor", "verify", {routed, "", "2"}},
      {"model.moe_router_bias_update_rate", "verify", {sigmoid, "", "0.1"}},
      {"model.moe_router_num_groups", "verify", {sigmoid, "", "2"}},
      {"model.moe_router_group_topk", "verify", {grouped, "2", "4"}},
      {"model.moe_router_group_score", "verify", {two_of_four, "", "maximum"}},
      {"model.moe_router_logit_bias", "verify", {routed, "", "true"}},
      {"model.moe_weight_on_input",
       "verify",
       {beside(routed, {"model.num_experts_per_token=1", "model.moe_router_normalised=false"}), "",
        "true"}},
      {"model.moe_z_loss_coeff", "verify", {routed, "", "0.1"}},
      {"model.moe_expert_bias", "verify", {routed, "", "true"}},
      {"model.moe_shared_gate", "verify", {shared, "", "true"}},
      {"training.momentum", "verify", {{"training.optimizer=momentum", exact}, "", "0.3"}},
      {"training.rms_alpha", "verify", {{"training.optimizer=rmsprop", exact}, "", "0.5"}},
      {"training.muon_scalar_optimizer", "verify", {muon, "", "sgd"}},
      {"training.muon_momentum", "verify", {muon, "", "0.5"}},
      {"training.muon_nesterov", "verify", {muon, "", "false"}},
      {"training.muon_num_ns_steps", "verify", {muon, "", "2"}},
      {"training.muon_coefficient_type", "verify", {muon, "", "simple"}},
      {"training.muon_scale_mode", "verify", {muon, "", "unit_rms_norm"}},
      {"training.muon_extra_scale_factor", "verify", {muon, "", "0.2"}},
      {"training.muon_tp_mode", "verify", {muon, "", "distributed"}},
      {"training.muon_dp_mode", "verify", {muon, "", "slices"}},
      {"training.loss_scaling", "verify", {half, "", "static"}},
      {"training.loss_scale", "verify", {constant, "", "0.5"}},
      {"training.loss_scale_growth_interval", "verify", {half, "", "1"}},
      {"training.loss_scale_hysteresis", "verify", {half, "", "2"}},
      {"parallelism.data_parallel",
       "verify",
       {{"parallelism.dp_replicate=2", plain[0], exact}, "", "local_sgd"}},
      {"parallelism.sync_period", "verify", {diloco, "", "3"}},
      {"parallelism.outer_learning_rate", "verify", {diloco, "", "0.5"}},
      {"parallelism.outer_momentum", "verify", {diloco, "", "0.5"}},
      {"parallelism.max_staleness",
       "verify",
       {{"parallelism.data_parallel=async_sgd", exact, plain[0]}, "", "2"}},
      {"parallelism.elastic_members", "verify", {elastic, "", "[2]"}},
      {"parallelism.gradient_compression", "verify", {plain, "", "top_k"}},
      {"parallelism.compression_ratio", "verify", {top_k, "", "0.5"}},
      {"parallelism.compression_block_size", "verify", {int8, "", "8"}},
      {"parallelism.error_feedback", "verify", {int8, "", "false"}},
      {"parallelism.cp_attention", "verify", {{"parallelism.cp=2"}, "", "all_gather"}},
      {"parallelism.etp", "experts", {{"parallelism.ep=2"}, "", "2"}},
      {"parallelism.expert_dispatch", "experts", {{"parallelism.ep=2"}, "", "per_node"}},
      {"parallelism.delay_weight_gradients",
       "experts",
       {{"parallelism.zero_stage=1", "parallelism.schedule=combined_1f1b"}, "", "true"}},
      {"parallelism.expert_payload",
       "experts",
       {{"parallelism.ep=2", "parallelism.expert_dispatch=per_node", "model.hidden_size=32"},
        "",
        "mxfp8"}},
      {"parallelism.cp_ulysses_degree",
       "verify",
       {{"parallelism.tp=1", "parallelism.cp=4", "parallelism.cp_attention=two_level"}, "", "1"}},
      {"parallelism.schedule_file",
       "experts",
       {{"parallelism.schedule=file", "training.global_batch_size=32"},
        "../scenarios/data/1f1b.csv",
        "gpipe.csv"}},
      {"model.moe_popularity_file",
       "experts",
       {{"model.moe_routing=file"},
        "scenarios/routing/eight-experts.json",
        "tests/effect/popularity.json"}},
      {"training.precision", "dense", {{}, "", "fp8"}},
      {"training.fp8_recipe", "dense", {fp8, "", "blockwise"}},
      {"training.optimizer_state_dtype", "dense", {{"training.optimizer=adam"}, "", "bf16"}},
      {"training.bf16_layers_at_start", "dense", {fp8, "", "1"}},
      {"training.quantized_parameters", "dense", {fp8, "", "true"}},
      {"training.bf16_layers_at_end", "dense", {fp8, "", "1"}},
      {"training.amax_history_len", "dense", {delayed, "", "3"}},
      {"training.amax_compute", "verify", {delayed_here, "", "max"}},
      {"training.amax_update", "dense", {delayed, "", "microbatch"}},
      {"system.device.peak_tflops.fp8", "dense", {fp8, "", "500"}},
      {"system.device.peak_tflops.fp4",
       "dense",
       {{"system.preset=dgx-b200", "training.precision=nvfp4"}, "", "1000"}},
      {"system.device.peak_tflops.fp64", "verify", {{"training.precision=fp64"}, "", "0.01"}},
      {"system.device.peak_tflops.fp32", "verify", {{}, "", "0.01"}},
      {"system.device.peak_tflops.fp16", "verify", {half, "", "0.01"}},
      {"system.device.host_bandwidth_gb_per_s",
       "dense",
       {{"parallelism.offload_optimizer=true"}, "", "10"}},
      {"system.host_us_per_kernel", "experts", {{}, "", "1000"}},
      {"system.host_us_per_call", "experts", {{}, "", "100000"}},
      {"system.device.matmul_efficiency", "verify", {{}, "", "0.001"}},
      {"system.attention_library", "dense", {{}, "", "flash2"}},
      {"system.cuda_launch_blocking", "experts", {{"system.host_us_per_kernel=100"}, "", "true"}},
      {"system.cuda_graphs",
       "experts",
       {{"system.host_us_per_kernel=1000"}, "", "attn,moe_router"}},
      {"system.device.power_w", "dense", {{"system.device.power_limit_w=300"}, "700", "900"}},
      {"system.device.power_limit_w", "dense", {{"system.device.power_w=700"}, "", "350"}},
      {"system.pcie_gb_per_s", "dense", {{}, "", "12"}},
      {"system.device.name", "dense", {{}, "", "NVIDIA A100"}},
      {"system.device.architecture", "dense", {{}, "", "ampere"}},
      {"system.cublas_workspace_config", "dense", {{}, "", ":4096:2"}},
      {"parallelism.account_for_embedding_in_pipeline_split",
       "experts",
       {{"model.num_layers=5"}, "", "true"}},
      {"cost.usd_per_gpu_hour", "dense", {{"training.tokens_total=1e12"}, "", "2"}},
      {"faults.observed_failures", "dense", {failures, "", "9"}},
      {"faults.checkpoint_interval_s", "dense", {failures, "", "900"}},
      {"faults.checkpoint_write_s", "dense", {{failures[0], failures[1]}, "60", "30"}},
      {"faults.checkpoint_gb_per_s", "dense", {{failures[0], failures[1]}, "5", "10"}},
      {"faults.detection_s", "dense", {failures, "", "300"}},
      {"faults.restart_s", "dense", {{failures[0], failures[2]}, "600", "900"}},
      {"faults.draws.count", "dense", {{drawn[1]}, "4", "8"}},
      {"faults.draws.seed", "dense", {{draws[0], "faults.draws.stragglers=" + spread}, "", "9"}},
      {"faults.draws.training_days", "dense", {drawn_failures, "", "3"}},
      {"faults.draws.compute_jitter.distribution",
       "dense",
       {{draws[0], "faults.draws.compute_jitter.spread=0.1"}, "uniform", "exponential"}},
      {"faults.draws.compute_jitter.spread", "dense", {computing, "0.1", "0.2"}},
      {"faults.draws.communication_jitter.distribution",
       "dense",
       {{draws[0], "faults.draws.communication_jitter.spread=0.1"}, "uniform", "exponential"}},
      {"faults.draws.communication_jitter.spread", "dense", {communicating, "0.1", "0.2"}},
      {"faults.draws.stragglers[].part",
       "dense",
       {draws, some, R"([{"part": "node", "probability": 0.05, "slowdown": 1.5}])"}},
      {"faults.draws.stragglers[].probability",
       "dense",
       {draws, some, R"([{"probability": 0.4, "slowdown": 1.5}])"}},
      {"faults.draws.stragglers[].slowdown",
       "dense",
       {draws, some, R"([{"probability": 0.05, "slowdown": 2}])"}},
      {"faults.draws.stragglers[].distribution",
       "dense",
       {draws, spread,
        R"([{"probability": 0.4, "slowdown": 1.5, "distribution": "exponential", "spread": 0.1}])"}},
      {"faults.draws.stragglers[].spread",
       "dense",
       {draws, spread,
        R"([{"probability": 0.4, "slowdown": 1.5, "distribution": "uniform", "spread": 0.3}])"}},
  };
}

}  // namespace shardsim::test

#include "tests/reports/sample_results.hpp"

namespace shardsim::samples {

namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

TextHeadline plan_headline() {
  return {"llama3-8b on 8 DGX-H100",
          "llama3-8b",
          "8 x dgx-h100",
          "dp_shard 64, zero 3",
          "bf16",
          "global batch 128 x 8,192 tokens",
          64,
          80e9};
}

TextHeadline verify_headline() {
  return {"verify tiny gpt with zero2",
          "gpt2 (tiny)",
          "2 nodes x 4 devices",
          "dp_shard 8, zero 2",
          "fp64",
          "global batch 16 x 8 tokens",
          8,
          0};
}

void add_memory(Result& result, std::int64_t params, std::int64_t grads, std::int64_t optimizer,
                std::int64_t activations, std::int64_t comm) {
  const std::int64_t peak = params + grads + optimizer + activations + comm;
  result.metrics.push_back({"memory.peak_bytes.max", peak});
  result.metrics.push_back({"memory.params_bytes.max", params});
  result.metrics.push_back({"memory.grads_bytes.max", grads});
  result.metrics.push_back({"memory.optimizer_bytes.max", optimizer});
  result.metrics.push_back({"memory.activations_bytes.max", activations});
  result.metrics.push_back({"memory.comm_bytes.max", comm});
}

}  // namespace

Sample plan() {
  Sample sample;
  sample.headline = plan_headline();
  sample.next_command = "shardsim scenarios/quickstart.json --set parallelism.zero_stage=2";
  Result& result = sample.result;
  result.scenario_json = R"({"schema_version": 1, "name": "llama3-8b on 8 DGX-H100"})";
  result.metrics = {
      {"step_time_s", 2.5},
      {"tokens_per_s", 419430.4},
      {"tokens_per_s_per_gpu", 6553.6},
      {"model_tflops_per_gpu", 382.25},
      {"mfu", 0.3865},
      {"hfu", 0.3865},
      {"time.compute_s", 2.0625},
      {"time.exposed_comm_s", 0.3125},
      {"time.bubble_s", 0.125},
      {"time.hidden_comm_s", 0.53125},
      {"comm.bytes_sent.total", std::int64_t{3'030'000'000'000}},
      {"comm.bytes_sent.max_rank", std::int64_t{47'400'000'000}},
      {"comm.bytes_sent.by_axis.dp", std::int64_t{3'030'000'000'000}},
      {"comm.bytes_sent.by_axis.tp", std::int64_t{0}},
      {"comm.calls.total", std::int64_t{12'480}},
      {"ranks", std::int64_t{64}},
      {"trace_hash", std::string("0f1e2d3c4b5a6978")},
  };
  add_memory(result, kGiB, 2 * kGiB, 3 * kGiB / 2, 40 * kGiB, kGiB / 2);
  result.metrics.push_back({"memory.device_bytes.max", 52 * kGiB});
  result.error_bands = {
      {"step_time_s", 2.25, 3.0, 3.75, -0.05, 54, 3, "dense models on hopper",
       "under torchtitan-2024", "h100-sxm", 51, "torchtitan-2024", 3, 8, 2048, 0.8125},
      {"memory.device_bytes.max", 50e9, 60e9, 90e9, 0.1, 127, 3, "dense models", "on hopper",
       "h100-sxm", 0, "torchtitan-2024", 0, 8, 48, 0.6875}};
  result.checks = {{"conservation", true, "bytes sent equal bytes received on every rank"}};
  result.expectations = {{"memory.peak_bytes.max", "<=", 80e9, 48318382080.0, true},
                         {"mfu", ">=", 0.38, 0.3865, true}};
  result.assumptions = {{"peak of bf16 is 989.4 TFLOP/s", "NVIDIA H100 datasheet"},
                        {"a large matmul reaches 0.8 of the peak", "assumed"},
                        {"fragmentation of device memory is not modelled", "assumed"}};
  return sample;
}

Sample verified() {
  Sample sample;
  sample.headline = verify_headline();
  sample.next_command = "shardsim scenarios/verify-gpt-zero2.json --set execution.tensors=meta";
  Result& result = sample.result;
  result.scenario_json = R"({"schema_version": 1, "name": "verify tiny gpt with zero2"})";
  result.metrics = {
      {"oracle.max_rel_error.grads", 3.125e-15},
      {"oracle.max_rel_error.params", 2.5e-16},
      {"oracle.max_rel_error.optimizer_state", 1.25e-14},
      {"oracle.max_rel_error.loss", 0.0},
      {"oracle.passed", true},
      {"step_time_s", 0.000125},
      {"time.compute_s", 0.00004},
      {"time.exposed_comm_s", 0.00008},
      {"time.bubble_s", 0.000005},
      {"time.hidden_comm_s", 0.0},
      {"comm.bytes_sent.total", std::int64_t{1'234'567}},
      {"comm.bytes_sent.by_axis.dp", std::int64_t{1'234'567}},
      {"ranks", std::int64_t{8}},
      {"trace_hash", std::string("00000000000000ff")},
  };
  add_memory(result, 4096, 4096, 8192, 65536, 1024);
  result.checks = {{"conservation", true, ""}, {"oracle", true, "5 steps, 48 tensors"}};
  return sample;
}

Sample failed_verify() {
  Sample sample = verified();
  sample.next_command = "shardsim scenarios/verify-gpt-zero2.json --set execution.steps=1";
  sample.result.exit_code = 1;
  for (Metric& metric : sample.result.metrics) {
    if (metric.name == "oracle.max_rel_error.grads") metric.value = 0.5;
    if (metric.name == "oracle.passed") metric.value = false;
  }
  sample.result.checks[1] = {
      "oracle", false,
      "gradient of blocks.1.mlp.up.weight differs first, at step 1 on rank 3: 2 times the "
      "reference at index 17 (0.25 instead of 0.125)"};
  sample.result.expectations = {{"oracle.max_rel_error.grads", "<=", 1e-9, 0.5, false}};
  sample.result.warnings = {"the vocabulary is padded from 97 to 104"};
  return sample;
}

Sample deadlock() {
  Sample sample;
  sample.headline = verify_headline();
  sample.headline.name = "two ranks send to each other first";
  Result& result = sample.result;
  result.scenario_json = R"({"schema_version": 1, "name": "two ranks send first"})";
  result.exit_code = 4;
  Diagnosis diagnosis;
  diagnosis.code = "DEADLOCK";
  diagnosis.summary = "2 ranks wait for each other";
  diagnosis.group = "pp#0";
  diagnosis.members = {0, 1};
  diagnosis.sequence = 7;
  diagnosis.time = Time::from_picoseconds(1'900'000'000);
  diagnosis.sides = {{{0},
                      "send to 1, fp32 x 1024 \"forward 2\"",
                      {"strategies/pipeline/run.cpp", 41, "send_forward"}},
                     {{1},
                      "send to 0, fp32 x 1024 \"backward 0\"",
                      {"strategies/pipeline/run.cpp", 57, "send_backward"}}};
  diagnosis.cycle = {"rank 0 waits for rank 1 to receive", "rank 1 waits for rank 0 to receive"};
  diagnosis.last_matched = "recv fp32 x 1024 \"forward 1\"";
  diagnosis.hint = "post both sends in one batch";
  result.diagnosis = diagnosis;
  return sample;
}

Sample infeasible() {
  Sample sample = plan();
  sample.headline.layout = "dp_replicate 64, zero 0";
  sample.headline.name = "llama3-8b, replicated";
  sample.next_command = "shardsim scenarios/quickstart.json --set parallelism.zero_stage=3";
  Result& result = sample.result;
  result.exit_code = 3;
  result.error_bands.clear();
  result.no_error_band = "only one table has measured runs with experts";
  std::erase_if(result.metrics, [](const Metric& m) { return m.name.starts_with("memory."); });
  add_memory(result, 15 * kGiB, 15 * kGiB, 90 * kGiB, 40 * kGiB, 2 * kGiB);
  result.checks.push_back({"memory", false,
                           "rank 0 needs 162 GiB at its peak, a device has 74.5 GiB; "
                           "the largest part is the optimizer's"});
  result.expectations[0].actual = 173946175488.0;
  result.expectations[0].passed = false;
  return sample;
}

}  // namespace shardsim::samples

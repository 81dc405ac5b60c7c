#include <string>

#include <catch2/catch.hpp>

#include "scenarios/load.hpp"

#include "tests/app/command_fixture.hpp"
#include "tests/temporary_folder.hpp"

// Flags of Megatron-LM that change a step's cost or numbers were called ignored, like data paths.
// An unknown optimizer became AdamW without a word.
namespace shardsim::test {

namespace {

const std::string kExperts =
    "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --vocab-size 100 "
    "--swiglu --ffn-hidden-size 128 --use-rotary-position-embeddings --normalization RMSNorm "
    "--disable-bias-linear --num-experts 8 --expert-model-parallel-size 2 --micro-batch-size 1 "
    "--moe-token-dispatcher-type alltoall --moe-grouped-gemm --attention-dropout 0 --bf16 ";

Printed import_flags(const std::string& flags, const std::vector<std::string>& options = {}) {
  const TemporaryFolder folder;
  write(folder / "run.sh", kExperts + flags);
  std::vector<std::string> words = {"import", "megatron", folder / "run.sh", "--gpu", "h100",
                                    "--gpus", "8"};
  words.insert(words.end(), options.begin(), options.end());
  return shardsim(words);
}

// The row for an argument; "" if there is none.
std::string row_of(const Printed& printed, const std::string& name) {
  for (std::size_t at = 0; at < printed.err.size();) {
    const std::size_t end = printed.err.find('\n', at);
    const std::string line = printed.err.substr(at, end - at);
    if (line.find(" " + name + " ") != std::string::npos) return line;
    if (end == std::string::npos) break;
    at = end + 1;
  }
  return "";
}

bool needs_somebody(const std::string& row) { return row.rfind("  needs you", 0) == 0; }

}  // namespace

TEST_CASE("flags of Megatron-LM that change cost, memory or numbers need somebody") {
  const char* const flags[] = {"--mtp-use-repeated-layer",
                               "--moe-enable-deepep",
                               "--moe-router-topk-limited-devices 2",
                               "--moe-input-jitter-eps 1e-3",
                               "--moe-shared-expert-overlap",
                               "--moe-permute-fusion",
                               "--moe-router-load-balancing-type seq_aux_loss",
                               "--recompute-modules mhc --recompute-granularity selective",
                               "--delay-wgrad-compute",
                               "--fp8-param-gather",
                               "--fp4-param-gather",
                               "--first-last-layers-bf16",
                               "--exp-avg-dtype bf16",
                               "--exp-avg-sq-dtype bf16",
                               "--main-grads-dtype bf16",
                               "--optimizer-cuda-graph",
                               "--cpu-offloading-weights",
                               "--no-bias-swiglu-fusion",
                               "--cross-entropy-loss-fusion",
                               "--attention-backend unfused",
                               "--no-overlap-p2p-communication",
                               "--use-nccl-ub",
                               "--calculate-per-token-loss",
                               "--fsdp-double-buffer",
                               "--reset-attention-mask",
                               "--rampup-batch-size 16 16 100",
                               "--attention-dropout 0.1",
                               "--a-flag-of-tomorrow 3"};
  for (const std::string flag : flags) {
    INFO(flag);
    const std::string name = flag.substr(0, flag.find(' '));
    const Printed printed = import_flags(flag);
    CHECK(printed.exit_code == 0);
    std::string plain = name.substr(2);
    for (char& c : plain) c = c == '-' ? '_' : c;
    const std::string row = row_of(printed, name) + row_of(printed, plain);
    CHECK(needs_somebody(row));
  }
}

TEST_CASE("flags of Megatron-LM that say nothing of a step, or what is as here, are ignored") {
  const Printed plain = import_flags("");
  CHECK(plain.err.find("needs you") == std::string::npos);
  const char* const flags[] = {"--save here",
                               "--data-path there",
                               "--log-throughput",
                               "--lr-warmup-iters 3",
                               "--mtp-loss-scaling-factor 0.1",
                               "--cuda-graph-impl none",
                               "--moe-flex-dispatcher-backend deepep",
                               "--attention-backend flash"};
  for (const std::string flag : flags) {
    INFO(flag);
    const std::string row = row_of(import_flags(flag), flag.substr(0, flag.find(' ')));
    CHECK(row.rfind("  ignored", 0) == 0);
  }
}

TEST_CASE("flags of Megatron-LM's attention become fields") {
  const Printed printed = import_flags("--add-qkv-bias --rotary-percent 0.5 --qk-layernorm");
  INFO(printed.err << printed.out);
  CHECK(printed.exit_code == 0);
  CHECK(printed.err.find("needs you") == std::string::npos);
  CHECK(printed.out.find("\"query_key_value_bias\": true") != std::string::npos);
  CHECK(printed.out.find("\"rotary_dim\": 8") != std::string::npos);
  CHECK(printed.out.find("\"query_key_norm\": \"per_head\"") != std::string::npos);
}

TEST_CASE("the flexible dispatcher of Megatron-LM sends tokens once to each node") {
  const auto dispatch_of = [](const Printed& printed) {
    return load_scenario_text(printed.out, "imported.json").parallelism.expert_dispatch;
  };
  CHECK(dispatch_of(import_flags("")) == ExpertDispatch::per_expert);
  const Printed flexible =
      import_flags("--moe-token-dispatcher-type flex --expert-tensor-parallel-size 1");
  INFO(flexible.err);
  CHECK(dispatch_of(flexible) == ExpertDispatch::per_node);
  CHECK(flexible.err.find("needs you") == std::string::npos);
  // It sends rows of tokens: a capacity and slices take rows of experts.
  for (const std::string flag :
       {"--moe-expert-capacity-factor 1.5 --moe-pad-expert-input-to-capacity",
        "--expert-tensor-parallel-size 2"}) {
    const Printed printed = import_flags("--moe-token-dispatcher-type flex " + flag);
    INFO(printed.err);
    CHECK(dispatch_of(printed) == ExpertDispatch::per_expert);
    CHECK(needs_somebody(row_of(printed, "moe_token_dispatcher_type")));
  }
}

TEST_CASE("Megatron-LM's traffic of experts under computation is a schedule") {
  const auto schedule_of = [](const std::string& flags) {
    const Printed printed = import_flags(flags + " --expert-tensor-parallel-size 1");
    INFO(printed.err);
    return load_scenario_text(printed.out, "imported.json").parallelism.schedule;
  };
  const std::string overlapped = "--overlap-moe-expert-parallel-comm";
  CHECK(schedule_of("") == "none");
  CHECK(schedule_of(overlapped) == "combined_1f1b");
  CHECK(schedule_of("--pipeline-model-parallel-size 2 --global-batch-size 8") == "1f1b");
  CHECK(schedule_of("--pipeline-model-parallel-size 2 --global-batch-size 8 " + overlapped) ==
        "combined_1f1b");
}

TEST_CASE("Megatron-LM's late weight gradients are a field beside the overlap that they fill") {
  const std::string delayed = "--delay-wgrad-compute --expert-tensor-parallel-size 1";
  const Printed alone = import_flags(delayed);
  CHECK(needs_somebody(row_of(alone, "--delay-wgrad-compute")));
  CHECK_FALSE(load_scenario_text(alone.out, "imported.json").parallelism.delay_weight_gradients);
  const Printed both = import_flags(delayed + " --overlap-moe-expert-parallel-comm");
  INFO(both.err);
  CHECK(both.err.find("needs you") == std::string::npos);
  const Scenario scenario = load_scenario_text(both.out, "imported.json");
  CHECK(scenario.parallelism.delay_weight_gradients);
  CHECK(scenario.warnings.empty());
}

TEST_CASE("an optimizer that is not here is refused, or said to be replaced") {
  for (const std::string optimizer : {"soap", "adafactor"}) {
    const Printed strict = import_flags("--optimizer " + optimizer);
    CHECK(strict.exit_code == 2);
    CHECK(strict.out.empty());
    CHECK(strict.err.find("error[E1355]") != std::string::npos);
    CHECK(strict.err.find("optimizer " + optimizer + ": AdamW stands in") != std::string::npos);
    const Printed loose = import_flags("--optimizer " + optimizer, {"--approximate"});
    CHECK(loose.exit_code == 0);
    CHECK(needs_somebody(row_of(loose, "optimizer " + optimizer + ": AdamW")));
  }
  CHECK(import_flags("--optimizer sgd").exit_code == 0);
}

TEST_CASE("steps of Megatron-LM's loss scale are whole numbers in the scenario") {
  const Printed printed =
      import_flags("--bf16 False --fp16 --hysteresis 3 --loss-scale-window 500.0");
  CHECK(printed.exit_code == 0);
  const Scenario scenario = load_scenario_text(printed.out, "imported.json");
  CHECK(scenario.training.loss_scale_hysteresis == 3);
  CHECK(scenario.training.loss_scale_growth_interval == 500);
  CHECK(scenario.training.loss_scale == 0x1p32);
  CHECK(import_flags("--fp16 --loss-scale-window 0.5").err.find("E1361") != std::string::npos);
}

}  // namespace shardsim::test

#include <map>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/scenarios/precision_settings.hpp"
#include "tests/scenarios/support.hpp"

// Precisions that a scenario may ask for, and the meaning of "fp8" alone.
namespace shardsim::test {
using namespace shardsim::testing;
namespace {

std::vector<std::string> in_fp8(std::vector<std::string> more = {}) {
  const std::vector<std::string> fp8 = products_in_fp8();
  more.insert(more.begin(), fp8.begin(), fp8.end());
  return more;
}

std::string recipe_on(const std::string& device) {
  return loaded(valid_text(), in_fp8({"system.device.name=" + device})).training.fp8_recipe;
}

std::string code(const std::vector<std::string>& overrides) {
  return only_problem_of(valid_text(), overrides).code;
}

}  // namespace

TEST_CASE("fp8 alone means MXFP8 on Blackwell, and one scale for a tensor elsewhere") {
  CHECK(recipe_on("NVIDIA H100") == "tensorwise");
  CHECK(recipe_on("NVIDIA B200") == "mxfp8");
  CHECK(recipe_on("NVIDIA GB300") == "mxfp8");
  CHECK(recipe_on("AMD Instinct MI300X") == "tensorwise");
  CHECK(loaded(valid_text()).training.fp8_recipe == "none");
}

TEST_CASE("all but products is bf16 in low precision") {
  const Scenario s = loaded(valid_text(), in_fp8());
  CHECK(s.training.dtype() == DType::bf16);
  CHECK(s.training.product_dtype() == DType::fp8_e4m3);
  CHECK(s.training.grad_reduce_dtype == DType::bf16);
  const Scenario four =
      loaded(valid_text(), {"training.precision=nvfp4", "system.device.peak_tflops.bf16=9",
                            "system.device.peak_tflops.fp4=9"});
  CHECK(four.training.product_dtype() == DType::fp4_e2m1);
  CHECK(four.training.fp8_recipe == "nvfp4");
}

TEST_CASE("a recipe goes with its precision") {
  CHECK(code(in_fp8({"training.fp8_recipe=nvfp4"})) == "E0223");
  CHECK(code(in_fp8({"training.fp8_recipe=none"})) == "E0223");
  CHECK(code({"training.precision=nvfp4", "system.device.peak_tflops.bf16=9",
              "system.device.peak_tflops.fp4=9", "training.fp8_recipe=delayed"}) == "E0223");
  const std::string mxfp8 = "training.fp8_recipe=mxfp8";
  CHECK(code(in_fp8({"system.device.name=NVIDIA H100", mxfp8})) == "E0223");
  CHECK(problems_of(valid_text(), in_fp8({"system.device.name=NVIDIA B200", mxfp8})).empty());
}

TEST_CASE("fp64 may have a recipe, other precisions may not") {
  const auto with = [](const char* precision) {
    return std::vector<std::string>{std::string("training.precision=") + precision,
                                    "training.fp8_recipe=tensorwise",
                                    "system.device.peak_tflops.fp64=9",
                                    "system.device.peak_tflops.fp32=9",
                                    "system.device.peak_tflops.bf16=9",
                                    "system.device.peak_tflops.fp16=9",
                                    "system.device.peak_tflops.fp8=9"};
  };
  const Scenario s = loaded(valid_text(), with("fp64"));
  CHECK(s.training.dtype() == DType::fp64);
  CHECK(s.training.product_dtype() == DType::fp8_e4m3);
  CHECK(s.training.has_low_products());
  CHECK(problems_of(valid_text(), with("fp8")).empty());
  for (const char* other : {"fp32", "bf16", "fp16"}) CHECK(code(with(other)) == "E0223");
}

TEST_CASE("what of low precision has no data yet is planned, not verified") {
  const auto real = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"execution.tensors=real", "parallelism.tp=1"});
    return in_fp8(std::move(more));
  };
  // Scales from the past, and draws, are verified beside fp64 alone.
  const std::vector<std::string> exact = {"training.precision=fp64",
                                          "system.device.peak_tflops.fp64=9",
                                          "system.device.peak_tflops.fp4=9"};
  for (const char* recipe : {"tensorwise", "delayed", "nvfp4"}) {
    CAPTURE(recipe);
    std::vector<std::string> chosen = {std::string("training.fp8_recipe=") + recipe,
                                       "model.seq_len=32", "model.hidden_size=128",
                                       "model.num_attention_heads=4", "model.ffn_hidden_size=128"};
    const bool is_anywhere = recipe == std::string("tensorwise");
    if (is_anywhere) CHECK(problems_of(valid_text(), real(chosen)).empty());
    if (recipe == std::string("delayed")) CHECK(code(real(chosen)) == "E0224");
    chosen.insert(chosen.end(), exact.begin(), exact.end());
    CHECK(problems_of(valid_text(), real(chosen)).empty());
  }
  const auto delayed = [&](const char* more) {
    std::vector<std::string> chosen = {"training.fp8_recipe=delayed", more,
                                       "training.amax_update=microbatch",
                                       "parallelism.zero_stage=0"};
    chosen.insert(chosen.end(), exact.begin(), exact.end());
    return real(chosen);
  };
  CHECK(code(delayed("training.recompute=full")) == "E0224");
  CHECK(code(delayed("parallelism.gradient_compression=int8")) == "E0224");
  CHECK(problems_of(valid_text(), real({"training.fp8_recipe=tensorwise", "model.num_experts=4",
                                        "system.device.peak_tflops.fp32=9"}))
            .empty());
  // Two groups of heads on four ranks: each group has two copies.
  CHECK(problems_of(valid_text(), real({"parallelism.tp=2"})).empty());
  CHECK(code(real({"parallelism.tp=4"})) == "E0224");
}

TEST_CASE("layers that stay in bf16 are layers of the model") {
  const std::int64_t layers = loaded(valid_text()).model.num_layers;
  const std::string all = "training.bf16_layers_at_start=" + std::to_string(layers);
  CHECK(problems_of(valid_text(), in_fp8({all})).empty());
  CHECK(code(in_fp8({all, "training.bf16_layers_at_end=1"})) == "E0225");
}

TEST_CASE("a shard holds whole blocks of scales") {
  const auto with = [](const char* tp, const char* ffn) {
    return in_fp8({"training.fp8_recipe=mxfp8", "model.hidden_size=128",
                   "model.num_attention_heads=4", std::string("parallelism.tp=") + tp,
                   std::string("model.ffn_hidden_size=") + ffn});
  };
  CHECK(problems_of(valid_text(), with("2", "64")).empty());
  CHECK(problems_of(valid_text(), with("1", "80")).empty());  // Its last block is shorter.
  CHECK(code(with("2", "96")) == "E0226");
}

TEST_CASE("with data all blocks of scales are whole") {
  const auto with = [](const char* field) {
    return in_fp8({"execution.tensors=real", "training.fp8_recipe=mxfp8", "parallelism.tp=1",
                   "model.hidden_size=128", "model.num_attention_heads=4",
                   "model.ffn_hidden_size=128", "model.seq_len=64", field});
  };
  CHECK(problems_of(valid_text(), with("model.seq_len=96")).empty());
  CHECK(code(with("model.seq_len=80")) == "E0226");
  CHECK(code(with("model.ffn_hidden_size=144")) == "E0226");
  const auto experts = [&](const char* channels) {
    return in_fp8({"execution.tensors=real", "training.fp8_recipe=mxfp8", "parallelism.tp=1",
                   "model.hidden_size=128", "model.num_attention_heads=4",
                   "model.ffn_hidden_size=128", "model.seq_len=64", "model.num_experts=4",
                   "system.device.peak_tflops.fp32=9", channels});
  };
  CHECK(problems_of(valid_text(), experts("model.moe_ffn_hidden_size=96")).empty());
  CHECK(code(experts("model.moe_ffn_hidden_size=48")) == "E0226");
  CHECK(code(experts("model.moe_latent_size=48")) == "E0226");
  // A rank has two parts of 16 positions.
  CHECK(code(with("parallelism.cp=2")) == "E0226");
}

TEST_CASE("the device has a peak for products in low precision") {
  CHECK(code({"training.precision=fp8"}) == "E0207");
  CHECK(code({"training.precision=nvfp4"}) == "E0207");
}

TEST_CASE("gradients that are reduced in less than they are computed in are a warning") {
  const std::vector<std::string> types = {"fp64", "fp32", "bf16", "fp16"};
  const std::map<std::string, std::set<std::string>> as_good = {{"fp64", {"fp64"}},
                                                                {"fp32", {"fp64", "fp32"}},
                                                                {"bf16", {"fp64", "fp32", "bf16"}},
                                                                {"fp16", {"fp64", "fp32", "fp16"}}};
  const std::string text =
      valid_text_with("\"fp64\": 10", "\"fp64\": 9, \"fp32\": 9, \"bf16\": 9, \"fp16\": 9");
  for (const std::string& own : types) {
    for (const std::string& reduced : types) {
      INFO(own << " reduced in " << reduced);
      int num_warnings = 0;
      for (const std::string& warning :
           loaded(text, {"training.precision=" + own, "training.grad_reduce_dtype=" + reduced})
               .warnings) {
        num_warnings += warning.find("training.grad_reduce_dtype is " + reduced) == 0 ? 1 : 0;
      }
      CHECK(num_warnings == (as_good.at(own).count(reduced) > 0 ? 0 : 1));
    }
  }
}

}  // namespace shardsim::test

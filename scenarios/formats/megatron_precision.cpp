#include <algorithm>
#include <cstdint>
#include <string>

#include "strategies/model/low_precision.hpp"

#include "scenarios/formats/emit_flags.hpp"
#include "scenarios/formats/megatron.hpp"
#include "scenarios/scenario.hpp"

// Products of linear layers in fewer bits, both ways. Names: megatron/training/arguments.py and
// megatron/core/transformer/transformer_config.py at NVIDIA/Megatron-LM d98e8a64.
namespace shardsim {

void import_megatron_low_precision(MegatronArguments& arguments, Import& import) {
  // "fp8" is the name in the configuration of a model, "fp8_format" that on a command line.
  const char* const fp8 = arguments.text("fp8_format") ? "fp8_format" : "fp8";
  if (arguments.text(megatron::kFp4Format.theirs)) {
    const char* const fp4 = megatron::kFp4Format.theirs;
    import.derive({fp4, arguments.written(fp4)}, megatron::kFp4Format.ours, std::string("nvfp4"));
  } else if (arguments.text(fp8)) {
    import.derive({fp8, arguments.written(fp8)}, megatron::kFp8Format.ours, std::string("fp8"));
    const std::string recipe = arguments.text(megatron::kFp8Recipe.theirs).value_or("delayed");
    const auto known = all_recipes();
    if (std::ranges::any_of(known, [&](const RecipeRow& row) { return recipe == row.name; })) {
      import.take({megatron::kFp8Recipe.theirs, recipe}, megatron::kFp8Recipe.ours, recipe);
    } else {
      import.warn({megatron::kFp8Recipe.theirs, recipe}, "no recipe here: the device's usual one");
    }
  } else {
    return;
  }
  if (!arguments.truth("bf16")) {
    import.warn({"bf16", "False"}, "beside products in low precision all else is bf16 here");
  }
  if (!arguments.truth(megatron::kSomeLayersBf16)) return;
  for (const NamePair& pair : {megatron::kFirstBf16, megatron::kLastBf16}) {
    const auto layers = static_cast<std::int64_t>(arguments.number(pair.theirs).value_or(1));
    import.take({pair.theirs, std::to_string(layers)}, pair.ours, layers);
  }
}

void add_low_precision(const TrainingSpec& training, Flags& flags) {
  if (!training.has_low_products()) return;
  if (training.precision == Precision::nvfp4) {
    flags.flag(megatron::kFp4Format, "e2m1");
    flags.flag("fp4-recipe", "nvfp4");
  } else {
    const bool has_blocks = training.fp8_recipe == "blockwise" || training.fp8_recipe == "mxfp8";
    flags.flag(megatron::kFp8Format, has_blocks ? "e4m3" : "hybrid");
    flags.flag(megatron::kFp8Recipe, training.fp8_recipe);
  }
  const std::int64_t kept = training.bf16_layers_at_start + training.bf16_layers_at_end;
  if (kept > 0 && training.fp8_recipe == "delayed") {
    return flags.lacks("layers in bf16 beside delayed scaling (training.bf16_layers_at_start)");
  }
  if (kept == 0) return;
  flags.flag(megatron::kSomeLayersBf16);
  flags.flag(megatron::kFirstBf16, training.bf16_layers_at_start);
  flags.flag(megatron::kLastBf16, training.bf16_layers_at_end);
}

std::string unsaid_precision(const TrainingSpec& training) {
  if (!training.has_low_products()) return {};
  return std::string("products in ") + to_string(training.precision) + " (training.precision)";
}

}  // namespace shardsim

#include <fmt/format.h>

#include "sim/diff/comparison.hpp"
#include "sim/diff/traits.hpp"

// A log has a step time of any run: compared with another model, it says nothing.
namespace shardsim {

std::string unlike_words(const RunSide& a, const RunSide& b) {
  if (a.kind != SideKind::megatron_log && b.kind != SideKind::megatron_log) return "";
  const bool tells_model = both_tell_shape(a, b);
  const bool tells_gpus = both_tell_gpus(a, b);
  std::string words;
  if (tells_model) {
    const std::string model = shape_change(a, b);
    if (!model.empty()) append(words, "it is not the same model: " + model, "; ");
  }
  const std::string gpus = gpus_change(a, b);
  if (!gpus.empty()) append(words, "it is not on as many GPUs: " + gpus, "; ");
  const std::string batch = batch_change(a, b);
  if (!batch.empty()) append(words, "it is not the same batch: " + batch, "; ");
  if (tells_model && tells_gpus) return words;
  const char* const untold = tells_model  ? "it ran on as many GPUs"
                             : tells_gpus ? "it was the same model"
                                          : "it was the same model on as many GPUs";
  append(words, fmt::format("it is not told whether {}", untold), "; ");
  return words;
}

}  // namespace shardsim

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "scenarios/formats/megatron_model.hpp"
#include "scenarios/scenario_error.hpp"

// Reads hybrid_layer_pattern, as parse_hybrid_pattern in Megatron-LM's
// megatron/core/models/hybrid/hybrid_layer_allocation.py does.
namespace shardsim {

namespace {

constexpr std::string_view kLetters = "MG*+D-E";
constexpr std::string_view kAnd =
    "M is Mamba-2, G gated DeltaNet, * attention, + latent attention, "
    "D sparse attention, - an MLP, and E experts";

std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char letter : text) {
    if (letter == separator) {
      parts.emplace_back();
    } else {
      parts.back() += letter;
    }
  }
  return parts;
}

[[noreturn]] void refuse_pattern(const MegatronArguments& arguments, const std::string& key,
                                 const std::string& what, std::string_view fix) {
  throw_problem("E1332", arguments.where(key), key + " " + what, std::string(fix));
}

void require_letters(const MegatronArguments& arguments, const std::string& key,
                     const std::string& letters) {
  const std::size_t other = letters.find_first_not_of(kLetters);
  if (other == std::string::npos) return;
  refuse_pattern(arguments, key,
                 fmt::format("has the letter \"{}\", which is no layer", letters[other]), kAnd);
}

// The depths of multi-token prediction are alike. An older run says them apart.
void read_depths(MegatronArguments& arguments, const std::vector<std::string>& depths,
                 MegatronPattern& pattern) {
  const auto told = arguments.text("mtp_hybrid_override_pattern");
  const std::int64_t num_told = arguments.integer("mtp_num_layers", kForeignCount).value_or(0);
  if (depths.empty()) {
    if (!told || num_told == 0) return;
    require_letters(arguments, "mtp_hybrid_override_pattern", *told);
    pattern.depth = *told;
    pattern.num_depths = num_told;
    return;
  }
  pattern.depth = depths.front();
  pattern.num_depths = static_cast<std::int64_t>(depths.size());
  require_letters(arguments, pattern.key, pattern.depth);
  for (const std::string& other : depths) {
    if (other == pattern.depth) continue;
    refuse_pattern(
        arguments, pattern.key,
        fmt::format("has depths of multi-token prediction \"{}\" and \"{}\"", pattern.depth, other),
        "Megatron-LM wants them alike");
  }
}

}  // namespace

MegatronPattern read_megatron_pattern(MegatronArguments& arguments) {
  MegatronPattern pattern;
  for (const char* key : {megatron::kOldPattern, megatron::kPattern}) {
    if (arguments.text(key)) pattern.key = key;
  }
  if (!pattern.is_there()) return pattern;
  std::vector<std::string> depths = parts_of(*arguments.text(pattern.key), '/');
  const std::vector<std::string> stages = parts_of(depths.front(), '|');
  depths.erase(depths.begin());
  for (const std::string& stage : stages) {
    require_letters(arguments, pattern.key, stage);
    pattern.letters += stage;
    if (stages.size() > 1) pattern.stages.push_back(static_cast<std::int64_t>(stage.size()));
  }
  if (pattern.letters.empty()) refuse_pattern(arguments, pattern.key, "has no layers", kAnd);
  // A depth without letters is none.
  const bool has_depths = std::any_of(depths.begin(), depths.end(),
                                      [](const std::string& depth) { return !depth.empty(); });
  if (!has_depths) depths.clear();
  read_depths(arguments, depths, pattern);
  return pattern;
}

}  // namespace shardsim

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "sim/kernel/text.hpp"

#include "strategies/pipeline/schedule_row.hpp"

#include "scenarios/formats/megatron_model.hpp"
#include "scenarios/scenario_error.hpp"

// Pipeline stages of a run of Megatron-LM.
namespace shardsim {

namespace {

// A pattern's letters, whatever num_layers says.
std::optional<std::int64_t> layers_in(MegatronArguments& arguments,
                                      const MegatronPattern& pattern) {
  const auto told = arguments.integer(megatron::kLayers.theirs, kForeignDegree);
  return pattern.is_there() ? pattern.num_layers() : told;
}

void import_vpp(MegatronArguments& arguments, const MegatronPattern& pattern, std::int64_t pp,
                Import& import) {
  for (const char* name : {"virtual_pipeline_model_parallel_size", megatron::kChunks.theirs}) {
    if (const auto chunks = arguments.integer(name, kForeignDegree)) {
      import.take({name, std::to_string(*chunks)}, megatron::kChunks.ours, *chunks);
      return;
    }
  }
  const auto layers = arguments.integer("num_layers_per_virtual_pipeline_stage", kForeignDegree);
  if (!layers) return;
  const auto all = layers_in(arguments, pattern);
  if (!all) return;
  import.derive({"num_layers_per_virtual_pipeline_stage", std::to_string(*layers)},
                megatron::kChunks.ours, std::max<std::int64_t>(*all / pp / *layers, 1));
}

// The bars of a pattern end stages, of which a rank has every pp-th.
void import_barred_stages(MegatronArguments& arguments, const MegatronPattern& pattern,
                          std::int64_t pp, Import& import) {
  const auto stages = static_cast<std::int64_t>(pattern.stages.size());
  if (stages % pp != 0) {
    throw_problem("E1333", arguments.where(pattern.key),
                  fmt::format("{} has {} stages, which {} pipeline ranks do not divide",
                              pattern.key, stages, pp),
                  "give each rank as many stages");
  }
  for (const char* name : {"virtual_pipeline_model_parallel_size", megatron::kChunks.theirs}) {
    (void)arguments.integer(name, kForeignDegree);  // A log has what follows from the pattern.
  }
  const ForeignValue cause = {pattern.key, fmt::format("{} stages", stages)};
  if (stages > pp) import.derive(cause, megatron::kChunks.ours, stages / pp);
  const bool is_even =
      std::count(pattern.stages.begin(), pattern.stages.end(), pattern.stages.front()) == stages;
  if (!is_even) import.derive(cause, "parallelism.stage_layers", pattern.stages);
}

// Longer ones are no layout.
constexpr std::size_t kLongestLayout = std::size_t{1} << 20;

// With `(xy)*3` or `x*3` written out, as PipelineParallelLayerLayout.parse_str_to_list does it:
// groups first, then letters. Nothing: it cannot be read.
std::optional<std::string> repeated(const std::string& layout, bool groups) {
  std::string text;
  for (std::size_t at = 0; at < layout.size(); ++at) {
    const std::size_t end = groups && layout[at] == '(' ? layout.find(')', at) : at;
    if (end == std::string::npos) return std::nullopt;
    const std::string part = end == at ? layout.substr(at, 1) : layout.substr(at + 1, end - at - 1);
    std::size_t times = 1;
    const bool may_repeat = groups ? end > at : layout[at] != '*';
    if (may_repeat && end + 1 < layout.size() && layout[end + 1] == '*') {
      std::size_t digits = end + 2;
      while (digits < layout.size() && layout[digits] >= '0' && layout[digits] <= '9') ++digits;
      const auto number = parse_number<std::size_t>(layout.substr(end + 2, digits - end - 2));
      if (!number || *number > kLongestLayout) return std::nullopt;
      times = *number;
      at = digits - 1;
    } else {
      at = end;
    }
    if (text.size() + times * part.size() > kLongestLayout) return std::nullopt;
    for (std::size_t i = 0; i < times; ++i) text += part;
  }
  return text;
}

// The layers of each stage. Nothing, where E is not in front, L not at the end, or depths of
// multi-token prediction not with it: no scenario has them elsewhere.
std::vector<std::int64_t> layers_of_layout(std::string layout) {
  std::erase(layout, ',');
  const auto without_groups = repeated(layout, true);
  const auto letters = without_groups ? repeated(*without_groups, false) : std::nullopt;
  if (!letters || letters->size() < 2 || letters->front() != 'E' || letters->back() != 'L') {
    return {};
  }
  const std::string inner = letters->substr(1, letters->find_last_not_of("mL"));
  if (inner.find_first_not_of("t|") != std::string::npos) return {};
  std::vector<std::int64_t> layers;
  for (const std::string_view stage : split_at(inner, '|')) {
    layers.push_back(static_cast<std::int64_t>(stage.size()));
  }
  return layers;
}

// Whether the layers of all stages are written one by one, and could be read.
bool import_layout(MegatronArguments& arguments, const MegatronPattern& pattern, std::int64_t pp,
                   Import& import) {
  const char* const name = megatron::kStages.theirs;
  const auto layout = arguments.text(name);
  if (!layout) return false;
  const std::vector<std::int64_t> layers = layers_of_layout(*layout);
  const auto stages = static_cast<std::int64_t>(layers.size());
  const std::int64_t sum = std::accumulate(layers.begin(), layers.end(), std::int64_t{0});
  if (layers.empty() || stages % pp != 0 || sum != layers_in(arguments, pattern).value_or(sum)) {
    import.warn({name, *layout},
                "not read: set parallelism.stage_layers, the layers of each stage");
    return false;
  }
  for (const char* chunks : {"virtual_pipeline_model_parallel_size", megatron::kChunks.theirs}) {
    (void)arguments.integer(chunks, kForeignDegree);  // A log has what follows from the layout.
  }
  if (stages > pp) import.derive({name, *layout}, megatron::kChunks.ours, stages / pp);
  import.derive({name, *layout}, megatron::kStages.ours, layers);
  return true;
}

// A first or a last stage of its own size; the other layers are divided evenly.
void import_stages(MegatronArguments& arguments, const MegatronPattern& pattern, std::int64_t pp,
                   Import& import) {
  for (const char* name :
       {"account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split"}) {
    if (arguments.truth(name)) {
      import.take({name, "True"}, std::string("parallelism.") + name, true);
    }
  }
  const auto first = arguments.integer("decoder_first_pipeline_num_layers", kForeignCount);
  const auto last = arguments.integer("decoder_last_pipeline_num_layers", kForeignCount);
  const auto all = layers_in(arguments, pattern);
  if ((!first && !last) || !all) return;
  const std::int64_t between = pp - (first ? 1 : 0) - (last ? 1 : 0);
  const std::int64_t rest = *all - first.value_or(0) - last.value_or(0);
  if (import.has(megatron::kChunks.ours) || between < 1 || rest % between != 0) {
    import.warn({"decoder_first/last_pipeline_num_layers", ""},
                "not read with several chunks: set parallelism.stage_layers");
    return;
  }
  std::vector<std::int64_t> layers(static_cast<std::size_t>(pp), rest / between);
  if (first) layers.front() = *first;
  if (last) layers.back() = *last;
  import.derive({"decoder_first/last_pipeline_num_layers",
                 fmt::format("{}, {}", arguments.written("decoder_first_pipeline_num_layers"),
                             arguments.written("decoder_last_pipeline_num_layers"))},
                "parallelism.stage_layers", layers);
}

}  // namespace

void import_megatron_pipeline(MegatronArguments& arguments, std::int64_t pp, Import& import) {
  const MegatronPattern pattern = read_megatron_pattern(arguments);
  const bool is_combined =
      import.has(megatron::kExperts.ours) && arguments.truth(megatron::kCombined.theirs);
  if (is_combined) {
    import.take({megatron::kCombined.theirs, "True"}, megatron::kCombined.ours,
                std::string(find_schedule(&ScheduleRow::megatron, "combined 1F1B")->name));
    // Megatron-LM refuses it without the overlap: then it stays unread.
    if (arguments.truth(megatron::kDelay.theirs)) {
      import.take({megatron::kDelay.theirs, "True"}, megatron::kDelay.ours, true);
    }
  }
  if (pp == 1) return;
  const bool has_bars = !pattern.stages.empty();
  const bool is_laid_out = !has_bars && import_layout(arguments, pattern, pp, import);
  if (has_bars) {
    import_barred_stages(arguments, pattern, pp, import);
  } else if (!is_laid_out) {
    import_vpp(arguments, pattern, pp, import);
  }
  const bool interleaved =
      import.has(megatron::kChunks.ours) && import.integer(megatron::kChunks.ours) > 1;
  if (!is_combined) {
    import.derive({megatron::kPipeline.theirs, std::to_string(pp)}, "parallelism.schedule",
                  std::string(schedule_in(&ScheduleRow::megatron, interleaved).name),
                  "Megatron-LM's own");
  }
  if (!has_bars && !is_laid_out) import_stages(arguments, pattern, pp, import);
}

}  // namespace shardsim

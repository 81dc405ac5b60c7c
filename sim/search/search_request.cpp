#include "sim/search/search_request.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <numeric>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"
#include "sim/kernel/text.hpp"

#include "reports/units.hpp"
#include "scenarios/json_value.hpp"
#include "scenarios/load.hpp"
#include "scenarios/presets.hpp"
#include "scenarios/read_file.hpp"
#include "scenarios/scenario_error.hpp"
#include "scenarios/suggest.hpp"
#include "sim/search/search_space.hpp"

namespace shardsim {
namespace {

template <class List>
bool is_among(const List& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

constexpr std::int64_t kTokensPerGpu = std::int64_t{1} << 12U;
constexpr std::int64_t kLeastTokens = std::int64_t{1} << 20U;
constexpr std::int64_t kMostTokens = std::int64_t{1} << 24U;

// The odd part of a number of GPUs.
std::int64_t odd_part(std::int64_t gpus) {
  while (gpus % 2 == 0) gpus /= 2;
  return gpus;
}

// The smallest odd x 2^k that is at least `batch`.
std::int64_t doubled_up_to(std::int64_t odd, std::int64_t batch) {
  while (odd < batch) odd *= 2;
  return odd;
}

std::string help_for_name(const std::string& word, const std::vector<std::string>& names,
                          const std::string& folder) {
  return names.empty() ? no_presets_help(builtin_preset_directories())
                       : help_for_preset(word, names, folder);
}

// The user's own presets are found beside the file, as those of any scenario.
std::string folder_beside(const SearchBase& base) {
  return std::filesystem::path(base.file).parent_path().string();
}

std::string system_preset_of(const std::string& gpu, const std::string& beside) {
  const std::vector<std::string> names = preset_names("systems", beside);
  if (const auto name = system_of_gpu(gpu, names)) return *name;
  std::vector<std::string> words = names;
  for (const std::string& name : names) {
    if (name.starts_with("dgx-") || name.starts_with("hgx-")) words.push_back(name.substr(4));
  }
  throw UsageError("E1322", "no GPU or system is called \"" + gpu + "\"",
                   help_for_name(lower_case(gpu), words, "systems"));
}

// Fewer GPUs than a node has are a part of one.
std::string system_override(const std::string& preset, std::int64_t gpus,
                            const std::string& beside) {
  const bool is_part = gpus < scenario_of_system(preset, {}, beside).system.gpus_per_node;
  return fmt::format("system={{\"preset\": {}, \"ranks\": {}{}}}", name_in_json(preset), gpus,
                     is_part ? fmt::format(", \"gpus_per_node\": {}", gpus) : std::string());
}

bool looks_like_file(const std::string& model) {
  return model.find('/') != std::string::npos ||
         (model.size() > 5 && model.substr(model.size() - 5) == ".json") ||
         std::filesystem::exists(model);
}

void read_model(const SearchRequest& request, SearchBase& base,
                std::optional<std::int64_t>& batch) {
  if (looks_like_file(request.model)) {
    SearchFile file = read_search_file(request.model, request.approximate);
    base.text = std::move(file.text);
    base.model_file = request.model;
    base.file = request.model + (file.is_imported ? " (imported)" : "");
    base.ignored = std::move(file.ignored);
    base.warnings = std::move(file.warnings);
    base.assumed = std::move(file.assumed);
    batch = file.global_batch_size;
    return;
  }
  const std::vector<std::string> names = preset_names("models", kCurrentFolder);
  if (!is_among(names, request.model)) {
    throw UsageError("E1321", "no model is called \"" + request.model + "\"",
                     help_for_name(request.model, names, "models") +
                         (names.empty() ? "" : "; or name a JSON file"));
  }
  base.text =
      "{\"schema_version\": 1, \"model\": {\"preset\": " + name_in_json(request.model) + "}}";
  base.file = "plan";
}

// `--set` on a searched field fixes it; the batch has an option of its own.
void sort_overrides(const SearchRequest& request, SearchBase& base,
                    std::optional<std::int64_t>& batch) {
  constexpr std::string_view kBatch = "training.global_batch_size=";
  for (const std::string& words : request.fixed) fix_axis(words, base.fixed);
  for (const std::string& words : request.overrides) {
    const std::size_t dot = words.find('.');
    const std::string section = words.substr(0, dot);
    const std::string key =
        dot == std::string::npos ? "" : words.substr(dot + 1, words.find('=') - dot - 1);
    if (words.rfind(kBatch, 0) == 0) {
      batch = batch_of_words(words.substr(kBatch.size()));
    } else if ((section == "parallelism" || section == "training") && is_among(axis_names(), key)) {
      fix_axis(words, base.fixed);
    } else if (key == "stage_layers" || key == "dp_shard" || key == "num_microbatches") {
      throw UsageError("E1325", "\"" + words + "\" would fix what each layout decides by itself",
                       "fix one of " + one_of_list(axis_names()) + " instead");
    } else {
      base.overrides.push_back(words);
    }
  }
}

// At the ZeRO stage with which most fields agree: 3, or with muon 1.
Scenario read_at_widest_stage(const SearchBase& base, const std::vector<std::string>& reading) {
  const auto read_at = [&](const char* stage) {
    std::vector<std::string> overrides = reading;
    overrides.emplace_back(stage);
    return load_scenario_text(base.text, base.file, overrides);
  };
  try {
    return read_at("parallelism.zero_stage=3");
  } catch (const ScenarioError& error) {
    // Any other problem of the optimizer is found again.
    const bool is_of_muon = std::ranges::any_of(error.problems(), [](const Problem& problem) {
      return problem.pointer == "/training/optimizer";
    });
    if (!is_of_muon) throw;
  }
  return read_at("parallelism.zero_stage=1");
}

}  // namespace

std::int64_t default_batch(std::int64_t seq_len, std::span<const std::int64_t> gpus) {
  const std::int64_t most = std::ranges::max(gpus);
  const std::int64_t tokens =
      std::clamp(most > kMostTokens / kTokensPerGpu ? kMostTokens : most * kTokensPerGpu,
                 kLeastTokens, kMostTokens);
  const std::int64_t batch = std::max(tokens / seq_len, std::int64_t{1});
  // Larger factors would make another training of it.
  constexpr std::int64_t kMostTimes = 2;
  std::int64_t odd = 1;
  // In one order, whatever that of the words is. Both factors are small before they are multiplied.
  std::vector<std::int64_t> sorted(gpus.begin(), gpus.end());
  std::ranges::sort(sorted);
  for (const std::int64_t count : sorted) {
    const std::int64_t own = odd_part(count);
    if (own > kMostTimes * batch) continue;
    const std::int64_t together = std::lcm(odd, own);
    if (together <= kMostTimes * batch) odd = together;
  }
  return odd == 1 ? batch : doubled_up_to(odd, batch);
}

std::int64_t batch_of_words(const std::string& words) {
  if (const auto number = parse_number<std::int64_t>(words)) return *number;
  throw UsageError("E1331", "a global batch of " + words + " is not a whole number of sequences",
                   "write its digits alone, such as 1024, or leave it out");
}

Scenario scenario_of(const SearchBase& base, const Candidate& candidate) {
  std::vector<std::string> overrides = base.overrides;
  overrides.push_back(
      fmt::format("training.global_batch_size={}", base.scenario.training.global_batch_size));
  for (std::string& override : overrides_of(candidate)) overrides.push_back(std::move(override));
  return load_scenario_text(base.text, base.file, overrides);
}

namespace {

// One framework for all layouts, or frameworks would be compared. It trains each of them. Returns
// what is assumed; nothing where the file or an override names one.
std::string price_as_one_framework(SearchBase& base, std::vector<std::string> reading) {
  if (!base.scenario.system.software_is_default) return {};
  const std::string software = software_of_any_layout();
  for (std::vector<std::string>* all : {&base.overrides, &reading}) {
    all->push_back("system.software=" + software);
  }
  base.scenario = read_at_widest_stage(base, reading);
  return "priced as " + software + " (--set system.software=...)";
}

// Values that a config.json does not give, unless an override does.
void assume_of_file(SearchBase& base) {
  for (const SearchFile::Assumed& assumed : base.assumed) {
    const auto gives = [&assumed](const std::string& override) {
      return override.starts_with(assumed.field + "=");
    };
    if (std::ranges::none_of(base.overrides, gives)) base.assumptions.push_back(assumed.words);
  }
}

void choose_batch(const SearchRequest& request, std::optional<std::int64_t> batch,
                  SearchBase& base) {
  Scenario& scenario = base.scenario;
  if (!batch) {
    const std::vector<std::int64_t> own = {request.num_gpus};
    batch =
        default_batch(scenario.model.seq_len, request.batch_for.empty() ? own : request.batch_for);
    base.assumptions.push_back(fmt::format(
        "global batch {} sequences = {} tokens: 4 Ki tokens for each GPU, from 1 Mi to 16 Mi "
        "tokens, as Llama trained (--global-batch-size)",
        format_count(*batch), format_count(*batch * scenario.model.seq_len)));
  }
  if (*batch < 1) {
    throw UsageError("E1323", fmt::format("a global batch of {} sequences", *batch),
                     "give 1 or more: --global-batch-size 128");
  }
  scenario.training.global_batch_size = *batch;
}

// Days have a price only where there are tokens to train on.
void choose_price(const SearchRequest& request, SearchBase& base) {
  Scenario& scenario = base.scenario;
  if (request.usd_per_gpu_hour <= 0 || scenario.training.tokens_total <= 0) return;
  base.overrides.push_back(fmt::format("cost.usd_per_gpu_hour={}", request.usd_per_gpu_hour));
  scenario.cost.usd_per_gpu_hour = request.usd_per_gpu_hour;
}

void assume_the_rest(const SearchRequest& request, SearchBase& base) {
  const Scenario& scenario = base.scenario;
  if (!request.seq_len && base.model_file.empty()) {
    base.assumptions.push_back(
        fmt::format("{} tokens per sequence, as the model's preset says (--seq-len)",
                    format_count(scenario.model.seq_len)));
  }
  if (request.precision.empty() && base.model_file.empty()) {
    base.assumptions.push_back(
        fmt::format("{}, gradients reduced in {}, optimizer {} (--precision, --set training....)",
                    to_string(scenario.training.precision),
                    to_string(scenario.training.grad_reduce_dtype), scenario.training.optimizer));
  }
  if (request.objective == Objective::cost && request.usd_per_gpu_hour <= 0) {
    base.assumptions.push_back(
        "cost ranks like time: with one kind and number of GPUs the fastest is the cheapest "
        "(--usd-per-gpu-hour sets the price)");
  }
}

}  // namespace

SearchBase prepare_search(const SearchRequest& request) {
  SearchBase base;
  std::optional<std::int64_t> batch;
  read_model(request, base, batch);
  const std::string beside = folder_beside(base);
  const std::string preset = system_preset_of(request.gpu, beside);
  if (request.num_gpus < 1) {
    throw UsageError("E1323", fmt::format("{} GPUs train nothing", request.num_gpus),
                     "give their number: --gpus 128");
  }
  base.overrides = {fmt::format("name={} on {} x {}", request.model, request.num_gpus, preset),
                    system_override(preset, request.num_gpus, beside), "expect=[]", "output={}",
                    R"(execution={"tensors": "meta", "steps": 1, "fold": "auto"})"};
  if (request.tokens) {
    base.overrides.push_back(fmt::format("training.tokens_total={}", *request.tokens));
  }
  if (request.seq_len) base.overrides.push_back(fmt::format("model.seq_len={}", *request.seq_len));
  if (!request.precision.empty()) {
    base.overrides.push_back("training.precision=" + request.precision);
  }
  if (request.global_batch_size) batch = request.global_batch_size;
  sort_overrides(request, base, batch);
  // A batch that every number of ranks divides, so that the reader checks the rest.
  std::vector<std::string> reading = base.overrides;
  reading.emplace_back("training.micro_batch_size=1");
  reading.push_back(fmt::format("training.global_batch_size={}", request.num_gpus));
  base.scenario = read_at_widest_stage(base, reading);
  const std::string priced_as = price_as_one_framework(base, std::move(reading));
  if (base.scenario.model.family == ModelFamily::mlp) {
    throw UsageError("E1326", "family mlp is for verification: there is nothing to lay out",
                     "plan a transformer: gpt2 or llama");
  }
  assume_of_file(base);
  if (!priced_as.empty()) base.assumptions.push_back(priced_as);
  choose_batch(request, batch, base);
  choose_price(request, base);
  assume_the_rest(request, base);
  if (request.against) base.given = read_given_layout(base, *request.against);
  return base;
}

}  // namespace shardsim

#include "sim/serve/plan_request.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "sim/kernel/error.hpp"

#include "scenarios/json_value.hpp"
#include "scenarios/presets.hpp"

#include "sim/serve/guarded_scenario.hpp"

namespace shardsim {

namespace {

constexpr double kMostGpus = 65'536;
constexpr double kMostOfAnything = 1e18;

UsageError wrong_value(const std::string& key, const std::string& demand) {
  return {"E0366", "\"" + key + "\" of a search " + demand, "the guide's page of serve has it all"};
}

class RequestReader {
 public:
  explicit RequestReader(const JsonValue& object) : object_(object) {}

  [[nodiscard]] std::string words(const std::string& key) const {
    const JsonValue* const value = object_.find(key);
    if (value == nullptr) return {};
    if (!value->is_string()) throw wrong_value(key, "is a text");
    return value->string();
  }

  [[nodiscard]] std::optional<double> number(const std::string& key, double most) const {
    const JsonValue* const value = object_.find(key);
    if (value == nullptr) return std::nullopt;
    const std::optional<double> number = value->number();
    if (!number || !(*number > 0) || *number > most) {
      throw wrong_value(key, "is a number above 0, and not too large");
    }
    return number;
  }

  [[nodiscard]] std::optional<std::int64_t> whole(const std::string& key, double most) const {
    const std::optional<double> given = number(key, most);
    if (!given) return std::nullopt;
    if (*given != std::floor(*given)) throw wrong_value(key, "is a whole number");
    return static_cast<std::int64_t>(*given);
  }

 private:
  const JsonValue& object_;
};

JsonValue read_object(const SourceText& source) {
  ProblemList problems;
  std::optional<JsonValue> document = parse_json(source, problems);
  problems.throw_if_any();
  if (!document->is_object()) throw wrong_value("model", "is a member of one JSON object");
  return std::move(*document);
}

// The search takes a file's name for a model, too; here it must not.
std::string preset_of(const std::string& folder, const std::string& key, const std::string& name) {
  const std::vector<std::string> names = builtin_preset_names(folder);
  const bool is_gpu = folder == "systems" && system_of_gpu(name, names).has_value();
  if (is_gpu || std::ranges::find(names, name) != names.end()) return name;
  throw wrong_value(key, "is one of the presets");
}

}  // namespace

SearchRequest read_plan_request(const std::string& text) {
  const SourceText source{kScenarioOfPage, text, false};
  const JsonValue object = read_object(source);
  const RequestReader reader(object);
  SearchRequest request;
  request.model = preset_of("models", "model", reader.words("model"));
  request.gpu = preset_of("systems", "gpu", reader.words("gpu"));
  const std::optional<std::int64_t> gpus = reader.whole("gpus", kMostGpus);
  if (!gpus) throw wrong_value("gpus", "is a whole number");
  request.num_gpus = *gpus;
  constexpr double kMostTokensOfSequence = 1 << 24;
  request.seq_len = reader.whole("seq_len", kMostTokensOfSequence);
  request.global_batch_size = reader.whole("global_batch_size", kMostGpus * kMostGpus);
  request.precision = reader.words("precision");
  request.tokens = reader.number("tokens", kMostOfAnything);
  request.usd_per_gpu_hour = reader.number("usd_per_gpu_hour", kMostOfAnything).value_or(0);
  request.time_limit_s = 0;  // That of the server ends the search.
  // One layout is shown, so neither others nor the front are looked for.
  request.top = 1;
  request.front_within = 1.0;
  return request;
}

}  // namespace shardsim

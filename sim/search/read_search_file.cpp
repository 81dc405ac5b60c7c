#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "scenarios/formats/foreign_object.hpp"
#include "scenarios/formats/import.hpp"
#include "scenarios/hugging_face.hpp"
#include "scenarios/json_value.hpp"
#include "scenarios/read_file.hpp"
#include "scenarios/scenario_error.hpp"
#include "sim/search/search_request.hpp"
#include "sim/search/search_space.hpp"

// The files that name the model of a search: scenarios, models, and config.json of Hugging Face.
namespace shardsim {
namespace {

template <class List>
bool lists_key(const List& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

using KeyNames = std::vector<std::string>;

// Fields with a value of each layout's own, besides the axes.
constexpr std::array<std::string_view, 5> kOfLayout = {"dp_shard", "stage_layers", "schedule_file",
                                                       "cp_ulysses_degree", "num_microbatches"};
// Settings of data-parallel algorithms that the search and its bounds do not cover.
constexpr std::array<std::string_view, 12> kOfAlgorithm = {"data_parallel",
                                                           "sync_period",
                                                           "outer_learning_rate",
                                                           "outer_momentum",
                                                           "max_staleness",
                                                           "elastic_members",
                                                           "elastic_min",
                                                           "elastic_max",
                                                           "gradient_compression",
                                                           "compression_ratio",
                                                           "compression_block_size",
                                                           "error_feedback"};

// Faults that make steps slower. The others are rates of failures, which cost time between steps.
constexpr std::array<std::string_view, 4> kFaultsOfParts = {"stragglers", "slow_links",
                                                            "flapping_links", "draws"};

// Removes members from a JSON text; the rest keeps its place.
class Blanking {
 public:
  explicit Blanking(std::string& text) : text_(text) {}

  // Returns the removed members.
  template <class Predicate>
  KeyNames take_out(const JsonObject& object, const Predicate& goes) {
    KeyNames taken;
    bool some_stay = false;
    for (std::size_t i = 0; i < object.size(); ++i) {
      const JsonMember& member = object[i];
      const bool stays = !goes(member.key);
      if (i > 0 && (!stays || !some_stay)) {
        blank_comma(end_of(object[i - 1].value.span), member.key_span.offset);
      }
      some_stay |= stays;
      if (stays) continue;
      taken.push_back(member.key);
      blank(member.key_span.offset, end_of(member.value.span));
    }
    return taken;
  }

 private:
  static std::size_t end_of(const Span& span) { return span.offset + span.length; }

  void blank(std::size_t begin, std::size_t end) {
    for (std::size_t at = begin; at < end; ++at) {
      if (text_[at] != '\n') text_[at] = ' ';
    }
  }

  // The one comma between two members; those of comments stay.
  void blank_comma(std::size_t begin, std::size_t end) {
    for (std::size_t at = begin; at < end; ++at) {
      if (text_.compare(at, 2, "//") == 0) {
        at = std::min(text_.find('\n', at), end);
      } else if (text_.compare(at, 2, "/*") == 0) {
        at = std::min(text_.find("*/", at + 2), end) + 1;
      } else if (text_[at] == ',') {
        text_[at] = ' ';
        return;
      }
    }
  }

  std::string& text_;
};

void say(const KeyNames& names, const char* why, SearchFile& file) {
  if (names.empty()) return;
  file.ignored.push_back(fmt::format("the file's {}: {}", fmt::join(names, ", "), why));
}

void read_batch(const JsonValue& document, SearchFile& file) {
  const JsonValue* training = document.find("training");
  if (training == nullptr || !training->is_object()) return;
  const JsonValue* size = training->find("global_batch_size");
  if (size == nullptr) return;
  const auto* number = std::get_if<std::int64_t>(&size->data);
  file.global_batch_size =
      number != nullptr ? *number
                        : batch_of_words(file.text.substr(size->span.offset, size->span.length));
}

void take_out_decisions(const JsonValue& document, SearchFile& file) {
  Blanking blanking(file.text);
  const auto is_decided = [](const std::string& key) {
    return lists_key(axis_names(), key) || lists_key(kOfLayout, key);
  };
  const auto goes = [&](const std::string& key) {
    return is_decided(key) || lists_key(kOfAlgorithm, key);
  };
  KeyNames decided;
  KeyNames algorithm;
  for (const std::string section : {"parallelism", "training"}) {
    const JsonValue* value = document.find(section);
    if (value == nullptr || !value->is_object()) continue;
    for (const std::string& key : blanking.take_out(value->object(), goes)) {
      (is_decided(key) ? decided : algorithm).push_back(fmt::format("{}.{}", section, key));
    }
  }
  say(decided, "each layout has its own (--fix decides an axis)", file);
  say(algorithm, "layouts are searched for synchronous data parallelism", file);
}

// Removes sections that describe one run on one machine.
void take_out_sections(const JsonValue& document, SearchFile& file) {
  const auto those_there = [&document](KeyNames names) {
    std::erase_if(names, [&](const std::string& name) { return document.find(name) == nullptr; });
    return names;
  };
  say(those_there({"system"}), "the machine is that of --gpu and --gpus", file);
  say(those_there({"execution", "expect", "output", "sweep"}), "layouts run one step each", file);
  Blanking blanking(file.text);
  blanking.take_out(document.object(), [](const std::string& key) { return key == "sweep"; });
  const JsonValue* faults = document.find("faults");
  if (faults == nullptr || !faults->is_object()) return;
  const auto is_of_parts = [](const std::string& key) { return lists_key(kFaultsOfParts, key); };
  KeyNames taken = blanking.take_out(faults->object(), is_of_parts);
  for (std::string& name : taken) name.insert(0, "faults.");
  say(taken, "layouts are compared on a machine without them", file);
}

// "vision_config {...}: left out".
std::string sentence_of(const ImportRow& row) {
  const std::string& written = row.theirs.written;
  return row.theirs.name + (written.empty() ? "" : " " + written) + ": " + row.ours;
}

// Whether it is a config.json, which may hold what a scenario may not.
bool holds_config(const SourceText& source) {
  ProblemList problems;
  const std::optional<JsonValue> document = parse_json(source, problems, foreign_json_limits());
  return document && is_hugging_face_config(*document);
}

// The scenario that an importer writes, and the fate of what it did not take over.
SearchFile import_search_file(const std::string& path, bool approximate) {
  Import import;
  import_hf_model(path, approximate, import);
  SearchFile file;
  file.text = import.scenario_json();
  file.is_imported = true;
  std::map<std::string, KeyNames> ignored;
  for (const ImportRow& row : import.rows()) {
    if (row.fate == Fate::ignored) ignored[row.ours].push_back(row.theirs.name);
    if (row.fate != Fate::needs_you) continue;
    if (row.field.empty()) {
      file.warnings.push_back(sentence_of(row));
    } else {
      file.assumed.push_back({row.field, sentence_of(row)});
    }
  }
  for (const auto& [why, names] : ignored) say(names, why.c_str(), file);
  return file;
}

}  // namespace

SearchFile read_search_file(const std::string& path, bool approximate) {
  const SourceText source{path, read_regular_file(path, JsonLimits{}.max_bytes)};
  if (holds_config(source)) return import_search_file(path, approximate);
  SearchFile file;
  ProblemList problems;
  const std::optional<JsonValue> document = parse_json(source, problems);
  problems.throw_if_any();
  if (!document->is_object() || document->find("model") == nullptr) {
    file.text = "{\"schema_version\": 1, \"model\": " + source.text + "}";
    return file;
  }
  file.text = source.text;
  read_batch(*document, file);
  take_out_decisions(*document, file);
  take_out_sections(*document, file);
  return file;
}

}  // namespace shardsim

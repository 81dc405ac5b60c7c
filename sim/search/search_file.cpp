#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "scenarios/json_value.hpp"
#include "scenarios/read_file.hpp"
#include "scenarios/scenario_error.hpp"
#include "sim/search/search_request.hpp"
#include "sim/search/search_space.hpp"

namespace shardsim {

namespace {

using Names = std::vector<std::string>;

template <class List>
bool is_among(const List& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

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

// Removes members from a JSON text; the rest keeps its place.
class Blanking {
 public:
  explicit Blanking(std::string& text) : text_(text) {}

  // Returns the removed members.
  template <class Predicate>
  Names take_out(const JsonObject& object, const Predicate& goes) {
    Names taken;
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

void say(const Names& names, const char* why, SearchFile& file) {
  std::string words;
  for (const std::string& name : names) words += (words.empty() ? "" : ", ") + name;
  if (!words.empty()) file.ignored.push_back("the file's " + words + ": " + why);
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
    return is_among(axis_names(), key) || is_among(kOfLayout, key);
  };
  const auto goes = [&](const std::string& key) {
    return is_decided(key) || is_among(kOfAlgorithm, key);
  };
  Names decided;
  Names algorithm;
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
  const auto those_there = [&document](const Names& names) {
    Names found;
    for (const std::string& name : names) {
      if (document.find(name) != nullptr) found.push_back(name);
    }
    return found;
  };
  say(those_there({"system"}), "the machine is that of --gpu and --gpus", file);
  say(those_there({"execution", "expect", "output", "sweep"}), "layouts run one step each", file);
  say(those_there({"faults"}), "layouts are compared on a machine without faults", file);
  Blanking(file.text).take_out(
      document.object(), [](const std::string& key) { return key == "faults" || key == "sweep"; });
}

}  // namespace

std::int64_t batch_of_words(const std::string& words) {
  std::int64_t number = 0;
  const char* end = words.data() + words.size();
  const auto [stop, error] = std::from_chars(words.data(), end, number);
  if (error == std::errc{} && stop == end) return number;
  throw UsageError("E1331", "a global batch of " + words + " is no whole number of sequences",
                   "write its digits alone, such as 1024, or leave it out");
}

SearchFile read_search_file(const std::string& path) {
  SearchFile file;
  const SourceText source{path, read_regular_file(path, JsonLimits{}.max_bytes)};
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

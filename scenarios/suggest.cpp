#include "scenarios/suggest.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "scenarios/field.hpp"
#include "scenarios/reading.hpp"

namespace shardsim {
namespace {

// Longer words are cut: only slips of the finger are looked for, and the cost is quadratic.
constexpr std::size_t kLongestCompared = 64;

// Names that begin alike, as far as a person reads them all.
constexpr std::size_t kLargestFamily = 8;
constexpr std::size_t kMostNear = 5;
constexpr std::string_view kEndsOfWords = "-._";

std::string lower(std::string_view word) {
  std::string out(word);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// "--tensor-model-parallel-size" and "Tensor_Model_Parallel_Size" are the same name.
std::string normalized(std::string_view name) {
  std::string result = lower(name.substr(std::min(name.find_first_not_of('-'), name.size())));
  std::replace(result.begin(), result.end(), '-', '_');
  return result;
}

std::string in_quotes(const std::string& word) { return "\"" + word + "\""; }

std::string question(const std::string& near) {
  return near.empty() ? "" : "did you mean " + in_quotes(near) + "?";
}

// The name of a field from inside `section`: its key there, else its full path.
std::string name_from(const std::string& section, const Field& field) {
  const bool inside = parent_path(field.path) == section;
  return in_quotes(inside ? last_key(field.path) : field.path);
}

// Fields by name; the first one of the table if several match. Used for every unknown key.
struct KnownNames {
  std::map<std::string, std::pair<const Field*, const std::string*>> foreign;  // With its tool.
  std::map<std::string, const Field*> own;                                     // By last key.
};

const KnownNames& known_names() {
  static const auto kNames = [] {
    KnownNames names;
    for (const Field& field : field_table()) {
      for (const ForeignName& foreign : field.foreign_names) {
        names.foreign.emplace(normalized(foreign.name), std::pair(&field, &foreign.tool));
      }
      // A key of objects in a list stands in no section that it could be moved to.
      if (!is_item_field(field)) names.own.emplace(last_key(field.path), &field);
    }
    return names;
  }();
  return kNames;
}

// The keys of fields and sections in a section.
std::vector<std::string> keys_of(const std::string& section) {
  std::vector<std::string> keys;
  for (const Field& field : field_table()) {
    if (parent_path(field.path) == section) keys.push_back(last_key(field.path));
  }
  for (const Section& child : section_table()) {
    const bool inside = !child.path.empty() && parent_path(child.path) == section;
    if (inside) keys.push_back(last_key(child.path));
  }
  return keys;
}

// A slip in a shorter word is ambiguous: "dp" is as near to "pp" as to "tp".
constexpr std::size_t kShortestSlip = 4;

struct Synonym {
  std::string_view theirs;
  std::string_view ours;
};
constexpr std::array kChoiceSynonyms = {
    Synonym{"bfloat16", "bf16"},      Synonym{"float16", "fp16"},
    Synonym{"half", "fp16"},          Synonym{"float32", "fp32"},
    Synonym{"float64", "fp64"},       Synonym{"torch.bfloat16", "bf16"},
    Synonym{"torch.float16", "fp16"}, Synonym{"torch.float32", "fp32"},
};

bool is_in(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// The candidate that is near; "" if none is or several are.
std::string only_near(const std::string& word, const std::vector<std::string>& candidates) {
  if (word.size() < kShortestSlip) return "";
  const std::string near = nearest(word, candidates);
  if (near.empty()) return "";
  std::vector<std::string> others = candidates;
  std::erase(others, near);
  return nearest(word, others).empty() ? near : "";
}

// The word of `choices` for another program's word; "" if there is none.
std::string same_choice(const std::string& word, const std::vector<std::string>& choices) {
  std::string wanted = lower(word);
  const auto* const found =
      std::find_if(kChoiceSynonyms.begin(), kChoiceSynonyms.end(),
                   [&](const Synonym& synonym) { return synonym.theirs == wanted; });
  if (found != kChoiceSynonyms.end()) wanted = found->ours;
  return is_in(choices, wanted) ? wanted : "";
}

// Our key for another program's key, in this section.
std::string same_quantity(const std::string& section, const std::string& name) {
  for (const Field& field : field_table()) {
    if (parent_path(field.path) != section) continue;
    for (const ForeignName& foreign : field.foreign_names) {
      if (foreign.is_same && foreign.name == name) return last_key(field.path);
    }
  }
  return "";
}

std::string our_key(const std::string& section, const std::string& key) {
  const std::string name = normalized(key);
  const std::vector<std::string> keys = keys_of(section);
  if (is_in(keys, name)) return name;
  const std::string same = same_quantity(section, name);
  // A name that means something elsewhere is no slip.
  const bool foreign = hint_for_key(section, key).label.rfind("did you mean", 0) != 0;
  return !same.empty() || foreign ? same : only_near(name, keys);
}

// Whether the field takes the value as it is written, as another program writes it, or never.
std::optional<Fix> fix_of_value(const Field& field, const JsonValue& value) {
  ProblemList problems;
  bool automatic = false;
  if (read_value(field, value, "", problems, automatic).has_value() || automatic) return Fix{};
  if (problems.empty() || problems.problems().front().fix.edits.empty()) return std::nullopt;
  return problems.problems().front().fix;
}

// torchtitan's -1: all ranks that are left.
std::optional<Fix> fix_of_foreign_value(const JsonMember& member) {
  const auto* const number = std::get_if<std::int64_t>(&member.value.data);
  if (number == nullptr || *number != -1) return std::nullopt;
  if (normalized(member.key) != "data_parallel_shard_degree") return std::nullopt;
  return Fix{"\"auto\" for -1", {{member.value.span.offset, member.value.span.length, "\"auto\""}}};
}

// A third of the letters may be wrong; one of three or fewer would match nearly anything.
std::size_t most_slips(std::string_view word) { return std::max<std::size_t>(1, word.size() / 3); }

bool begins(std::string_view word, std::string_view candidate) {
  return !word.empty() && candidate.size() > word.size() && candidate.starts_with(word) &&
         kEndsOfWords.find(candidate[word.size()]) != std::string_view::npos;
}

bool is_written(const JsonObject& object, const std::string& key) {
  return std::any_of(object.begin(), object.end(), [&](const JsonMember& member) {
    return member.key == key && !member.value.span.source->preset;
  });
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  a = a.substr(0, kLongestCompared);
  b = b.substr(0, kLongestCompared);
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> previous(b.size() + 1);
  std::vector<std::size_t> current(b.size() + 1);
  std::iota(previous.begin(), previous.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], before[j - 2] + 1);
      }
    }
    std::swap(before, previous);
    std::swap(previous, current);
  }
  return previous[b.size()];
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = most_slips(word) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance && distance < candidate.size()) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::vector<std::string> names_of_family(std::string_view word,
                                         const std::vector<std::string>& candidates) {
  std::vector<std::string> family;
  for (const std::string& candidate : candidates) {
    if (begins(word, candidate)) family.push_back(candidate);
  }
  if (family.size() > kLargestFamily) family.clear();
  return family;
}

std::vector<std::string> near_names(std::string_view word,
                                    const std::vector<std::string>& candidates) {
  std::vector<std::pair<std::size_t, std::string>> found;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = begins(word, candidate) ? 0 : edit_distance(word, candidate);
    const bool is_slip = distance <= most_slips(word) && distance < candidate.size();
    if (is_slip) found.emplace_back(distance, candidate);
  }
  std::ranges::stable_sort(found, {}, &std::pair<std::size_t, std::string>::first);
  std::vector<std::string> names;
  for (auto& [distance, name] : found) {
    const bool is_after_family = distance > 0 && found.front().first == 0;
    if (names.size() < kMostNear && !is_after_family) names.push_back(std::move(name));
  }
  return names;
}

std::string help_for_preset(std::string_view word, const std::vector<std::string>& names,
                            const std::string& folder) {
  std::vector<std::string> near = near_names(word, names);
  // Users name the GPU for the machine.
  if (near.empty() && folder == "systems") near = near_names("dgx-" + std::string(word), names);
  const std::string listing = "\"shardsim presets " + folder + "\" lists ";
  return near.empty() ? listing + "all"
                      : "write " + one_of_list(near) + "; " + listing + "the rest";
}

std::string near_label(std::string_view word, const std::vector<std::string>& candidates) {
  const std::vector<std::string> family = names_of_family(word, candidates);
  if (!family.empty()) return "did you mean " + one_of_list(family) + "?";
  return question(nearest(word, candidates));
}

std::string one_of_list(const std::vector<std::string>& words) {
  std::string result;
  for (std::size_t i = 0; i < words.size(); ++i) {
    result += i == 0 ? "" : i + 1 == words.size() ? " or " : ", ";
    result += in_quotes(words[i]);
  }
  return result;
}

KeyHint hint_for_key(const std::string& section, const std::string& key) {
  const std::string wanted = normalized(key);
  const KnownNames& known = known_names();
  const bool in_list = section.ends_with("[]");  // Other programs have no such lists.
  if (const auto found = known.foreign.find(wanted); !in_list && found != known.foreign.end()) {
    const auto& [field, tool] = found->second;
    const std::string ours = name_from(section, *field);
    return {*tool + "'s name; here it is " + ours, "write " + ours + " instead"};
  }
  // Others switch a type on; our keys of that name are a device's speeds.
  const bool is_type = is_in(find_field("training.precision")->choices, wanted);
  if (is_type && section.rfind("system", 0) != 0) {
    const std::string ours = section == "training" ? "precision" : "training.precision";
    return {"a type; here it is a value of " + in_quotes(ours),
            "write " + in_quotes(ours) + ": " + in_quotes(wanted) + " instead"};
  }
  const auto own = known.own.find(wanted);
  if (own != known.own.end() && wanted != "source" && wanted != "preset") {
    const std::string home = parent_path(own->second->path);
    if (home == section) return {"", "write " + in_quotes(wanted)};
    return {"belongs into " + (home.empty() ? "the document" : in_quotes(home)),
            "move it: its full name is " + in_quotes(own->second->path)};
  }
  std::vector<std::string> keys = keys_of(section);
  if (section.empty()) keys.emplace_back("sweep");
  const std::string near = nearest(wanted, keys);
  return {question(near), near.empty() ? "the keys here are " + one_of_list(keys)
                                       : "write " + in_quotes(near) + ", or remove it"};
}

std::string field_of_word(std::string_view word) {
  const std::string wanted = normalized(word);
  const KnownNames& known = known_names();
  if (const auto own = known.own.find(wanted); own != known.own.end()) return own->second->path;
  const auto foreign = known.foreign.find(wanted);
  return foreign == known.foreign.end() ? "" : foreign->second.first->path;
}

Fix fix_of_key(const std::string& section, const JsonMember& member, const JsonObject& object,
               std::set<std::string>& claimed) {
  const std::string ours = our_key(section, member.key);
  if (ours.empty() || is_written(object, ours)) return {};
  const std::string path = section.empty() ? ours : section + "." + ours;
  const Field* const field = find_field(path);
  std::optional<Fix> fix;
  if (field != nullptr) {
    fix = fix_of_foreign_value(member);
    if (!fix) fix = fix_of_value(*field, member.value);
  } else if (find_section(path)->is_list ? member.value.is_array() : member.value.is_object()) {
    fix = Fix{};  // Its content is judged under its right name.
  }
  if (!fix || !claimed.insert(ours).second) return {};
  fix->edits.insert(fix->edits.begin(),
                    TextEdit{member.key_span.offset, member.key_span.length, in_quotes(ours)});
  fix->message = "write " + in_quotes(ours) + " for " + in_quotes(printable(member.key, 40)) +
                 (fix->message.empty() ? "" : ", and " + fix->message);
  return *fix;
}

Fix fix_of_choice(const JsonValue& value, const std::vector<std::string>& choices) {
  const std::string& word = value.string();
  std::string ours = same_choice(word, choices);
  if (ours.empty()) ours = only_near(lower(word), choices);
  if (ours.empty()) return {};
  return {"write " + in_quotes(ours) + " for " + in_quotes(printable(word, 40)),
          {{value.span.offset, value.span.length, in_quotes(ours)}}};
}

Fix fix_of_quotes(const JsonValue& value,
                  const std::function<bool(const JsonValue& bare)>& accepts) {
  const std::string& word = value.string();
  const SourceText text{"", word, true};
  ProblemList problems;
  const std::optional<JsonValue> bare = parse_json(text, problems);
  const bool plain = bare && !bare->is_string() && bare->span.length == word.size();
  if (!plain || !accepts(*bare)) return {};
  return {"write " + word + " without quotes", {{value.span.offset, value.span.length, word}}};
}

Fix fix_of_version(const Span& document) {
  const std::string& text = document.source->text;
  const std::size_t inside = document.offset + 1;
  const std::size_t next = text.find_first_not_of(" \t\r\n", inside);
  if (next == std::string::npos || text[next] == '}') return {};  // Nothing else stands there.
  // Copies the layout of the next key: on a line of its own, or behind the bracket.
  const std::string space = text.substr(inside, next - inside);
  return {"write \"schema_version\": 1",
          {{inside, 0, space + "\"schema_version\": 1," + (space.empty() ? " " : "")}}};
}

}  // namespace shardsim

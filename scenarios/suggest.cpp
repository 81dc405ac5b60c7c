#include "scenarios/suggest.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "scenarios/field.hpp"

namespace shardsim {
namespace {

// Longer words are cut: only slips of the finger are looked for, and the cost is quadratic.
constexpr std::size_t kLongestCompared = 64;

// "--tensor-model-parallel-size" and "Tensor_Model_Parallel_Size" are the same name.
std::string normalized(std::string_view name) {
  std::string result;
  for (const char c : name.substr(std::min(name.find_first_not_of('-'), name.size()))) {
    result += c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return result;
}

std::string quoted(const std::string& word) { return "\"" + word + "\""; }

// The name of a field from inside `section`: its key there, else its full path.
std::string name_from(const std::string& section, const Field& field) {
  const bool inside = parent_path(field.path) == section;
  return quoted(inside ? last_key(field.path) : field.path);
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

std::vector<std::string> keys_of(const std::string& section) {
  std::vector<std::string> keys;
  for (const Field& field : field_table()) {
    if (parent_path(field.path) == section) {
      keys.push_back(last_key(field.path));
    }
  }
  for (const Section& child : section_table()) {
    if (!child.path.empty() && parent_path(child.path) == section) {
      keys.push_back(last_key(child.path));
    }
  }
  if (section.empty()) keys.emplace_back("sweep");
  return keys;
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  a = a.substr(0, kLongestCompared);
  b = b.substr(0, kLongestCompared);
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> previous(b.size() + 1);
  std::vector<std::size_t> current(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) {
    previous[j] = j;
  }
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
  // A third of the letters may be wrong; one of three or fewer would match nearly anything.
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance && distance < candidate.size()) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string one_of_list(const std::vector<std::string>& words) {
  std::string result;
  for (std::size_t i = 0; i < words.size(); ++i) {
    result += i == 0 ? "" : i + 1 == words.size() ? " or " : ", ";
    result += quoted(words[i]);
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
  const std::vector<std::string>& types = find_field("training.precision")->served;
  const bool is_type = std::find(types.begin(), types.end(), wanted) != types.end();
  if (is_type && section.rfind("system", 0) != 0) {
    const std::string ours = section == "training" ? "precision" : "training.precision";
    return {"a type; here it is a value of " + quoted(ours),
            "write " + quoted(ours) + ": " + quoted(wanted) + " instead"};
  }
  const auto own = known.own.find(wanted);
  if (own != known.own.end() && wanted != "source" && wanted != "preset") {
    const std::string home = parent_path(own->second->path);
    if (home == section) {
      return {"", "write " + quoted(wanted)};
    }
    return {"belongs into " + (home.empty() ? "the document" : quoted(home)),
            "move it: its full name is " + quoted(own->second->path)};
  }
  const std::string near = nearest(wanted, keys_of(section));
  if (!near.empty()) {
    return {"did you mean " + quoted(near) + "?", "write " + quoted(near) + ", or remove it"};
  }
  return {"", "the keys here are " + one_of_list(keys_of(section))};
}

}  // namespace shardsim

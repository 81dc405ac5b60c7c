#include "scenarios/reading.hpp"

#include <algorithm>
#include <utility>

#include "scenarios/missing_field.hpp"
#include "scenarios/suggest.hpp"

namespace shardsim {
namespace {

constexpr std::size_t kMaxItems = 1000;  // In one list.

// A flag that names a file in place of what is in it, as other options do; else `help`.
std::string content_help(const JsonValue& value, const std::string& path, std::string help = "") {
  const bool names_file = value.is_string() && value.string().ends_with(".json");
  if (!names_file || !value.span.source->flag) return help;
  return "write --set \"" + path + "=$(cat " + value.string() + ")\" for what the file holds";
}

class DocumentReader {
 public:
  explicit DocumentReader(Reading& reading) : reading_(&reading) {}

  void read_section(const JsonValue& value, const std::string& path, const std::string& pointer) {
    if (!value.is_object()) {
      reading_->problems.add("E0101", value.span, pointer,
                             name_of(path) + " must be an object, not " + describe(value),
                             content_help(value, path));
      reading_->broken.insert(path);
      return;
    }
    reading_->sections[path] = Span{value.span.source, value.span.offset, 1};
    std::set<std::string> fixed;
    for (const JsonMember& member : value.object()) {
      const std::string child = path.empty() ? member.key : path + "." + member.key;
      const std::string child_pointer = pointer_to(pointer, member.key);
      // A key with a dot in it would look like a path.
      const bool plain = member.key.find('.') == std::string::npos;
      const Field* field = plain ? find_field(child) : nullptr;
      const Section* section = plain && !member.key.empty() ? find_section(child) : nullptr;
      if (field != nullptr) {
        read_field(*field, member.value, child_pointer, reading_->fields[child]);
      } else if (section != nullptr && section->is_list) {
        read_list(*section, member.value, child_pointer);
      } else if (section != nullptr) {
        read_section(member.value, child, child_pointer);
      } else {
        unknown_key(path, member, value.object(), child_pointer, fixed);
      }
    }
  }

 private:
  static std::string name_of(const std::string& path) {
    return path.empty() ? "a scenario" : "\"" + path + "\"";
  }

  // `fixed`: the keys that fixes of the object write already.
  void unknown_key(const std::string& section, const JsonMember& member, const JsonObject& object,
                   const std::string& pointer, std::set<std::string>& fixed) {
    if (reading_->problems.full()) {
      reading_->problems.add("E0107", member.key_span, pointer, "");
      return;  // Looking for a hint costs more than everything else.
    }
    const KeyHint hint = hint_for_key(section, member.key);
    reading_->problems.add("E0107", member.key_span, pointer,
                           "unknown field \"" + printable(member.key, 40) + "\"", hint.help,
                           hint.label, fix_of_key(section, member, object, fixed));
  }

  void read_field(const Field& field, const JsonValue& written, const std::string& pointer,
                  FieldState& state) {
    state.given = true;
    state.span = written.span;
    state.pointer = pointer;
    const JsonValue* value = &written;
    if (field.is_sourced) {
      state.source = written.span.source->flag ? "given by --set" : "given in the scenario";
      if (written.is_object()) value = unwrap(written, pointer, state);
    }
    if (value == nullptr) return;
    bool automatic = false;
    const auto result = read_value(field, *value, pointer, reading_->problems, automatic);
    if (automatic) {
      state.given = false;
    } else if (result.has_value()) {
      field.set(reading_->scenario, *result);
      state.written = *result;
      state.good = true;
    }
  }

  // {"value": 450, "source": "where from"}: the number with its origin.
  const JsonValue* unwrap(const JsonValue& written, const std::string& pointer, FieldState& state) {
    const JsonValue* value = written.find("value");
    const JsonValue* source = written.find("source");
    if (value == nullptr || source == nullptr || !source->is_string() ||
        written.object().size() != 2) {
      reading_->problems.add("E0101", written.span, pointer,
                             "a number with its origin is {\"value\": 1, \"source\": \"text\"}",
                             "or write the number alone");
      return nullptr;
    }
    state.source = source->string();
    return value;
  }

  void read_list(const Section& section, const JsonValue& value, const std::string& pointer) {
    if (!value.is_array()) {
      reading_->problems.add(
          "E0101", value.span, pointer,
          "\"" + section.path + "\" must be a list, not " + describe(value),
          content_help(value, section.path, "such as [" + section.items.example + "]"));
      return;
    }
    for (std::size_t i = 0; i < value.array().size(); ++i) {
      const JsonValue& item = value.array()[i];
      const std::string item_pointer = pointer_to(pointer, std::to_string(i));
      if (i >= kMaxItems) {
        reading_->problems.add(
            "E0003", item.span, item_pointer,
            "more than " + std::to_string(kMaxItems) + " in the list \"" + section.path + "\"");
        return;
      }
      read_item(section, item, item_pointer);
    }
  }

  void read_item(const Section& section, const JsonValue& item, const std::string& pointer) {
    const ListItems& items = section.items;
    if (!item.is_object()) {
      reading_->problems.add("E0101", item.span, pointer,
                             items.name + " must be an object, not " + describe(item),
                             "such as " + items.example);
      return;
    }
    items.append(reading_->scenario);
    const std::string inside = section.path + "[]";
    std::map<std::string, FieldState>& states = reading_->items[section.path].emplace_back();
    std::set<std::string> fixed;
    states[""] = {true, true, {item.span.source, item.span.offset, 1}, pointer, "", {}};
    for (const JsonMember& member : item.object()) {
      const bool plain = member.key.find('.') == std::string::npos;
      const Field* field = plain ? find_field(inside + "." + member.key) : nullptr;
      if (field == nullptr) {
        unknown_key(inside, member, item.object(), pointer_to(pointer, member.key), fixed);
      } else {
        read_field(*field, member.value, pointer_to(pointer, member.key), states[member.key]);
      }
    }
    for (const Field& field : field_table()) {
      if (!field.is_required || parent_path(field.path) != inside) continue;
      const std::string key = last_key(field.path);
      if (states.count(key) > 0) continue;
      reading_->problems.add(kMissingFieldCode, {item.span.source, item.span.offset, 1}, pointer,
                             items.name + " without \"" + key + "\"", "such as " + items.example);
    }
  }

  Reading* reading_;
};

bool is_broken(const Reading& reading, std::string path) {
  while (reading.broken.count(path) == 0 && !path.empty()) path = parent_path(path);
  return reading.broken.count(path) > 0;
}

// A whole section that is missing is reported once, not field by field.
void report_missing(Reading& reading, const Field& field, std::set<std::string>& reported) {
  std::string missing = field.path;
  for (std::string section = parent_path(field.path);
       !section.empty() && reading.sections.count(section) == 0; section = parent_path(section)) {
    missing = section;
  }
  if (is_broken(reading, missing) || !reported.insert(missing).second) return;
  const std::string home = parent_path(missing);
  const std::string key = "\"" + last_key(missing) + "\"";
  std::string help = "add it";
  if (const Section* section = find_section(missing); section != nullptr) {
    help = section->preset_folder.empty()
               ? "add an object " + key
               : "add " + key + ", for example " + key + ": {\"preset\": ...}";
  } else if (const Field* row = find_field(missing); row != nullptr) {
    help = "add it: " + row->meaning;
  }
  Fix fix;
  if (missing == "schema_version") fix = fix_of_version(reading.where(missing));
  reading.problems.add(kMissingFieldCode, reading.where(missing), pointer_of(missing),
                       home.empty() ? key + " is missing" : key + " is missing in \"" + home + "\"",
                       help, "", std::move(fix));
}

void fill_defaults(Reading& reading) {
  std::set<std::string> reported;
  for (const Field& field : field_table()) {
    FieldState& state = reading.fields[field.path];
    if (state.given || is_item_field(field)) continue;
    if (field.is_required) {
      report_missing(reading, field, reported);
    } else if (!field.default_json.empty()) {
      field.set(reading.scenario, default_of(field));
      state.source = "default";
      state.good = true;
    }
  }
}

}  // namespace

const FieldState& Reading::state(const std::string& path) const {
  static const FieldState kUntouched;
  const auto found = fields.find(path);
  return found == fields.end() ? kUntouched : found->second;
}

bool Reading::all_good(std::initializer_list<const char*> paths) const {
  return std::all_of(paths.begin(), paths.end(), [this](const char* path) { return good(path); });
}

FieldState Reading::item(const std::string& list, std::size_t index, const std::string& key) const {
  const auto found = items.find(list);
  if (found == items.end() || index >= found->second.size()) return {};
  const auto state = found->second[index].find(key);
  return state == found->second[index].end() ? FieldState() : state->second;
}

Span Reading::where(const std::string& path) const {
  if (const Span& span = state(path).span; span.source != nullptr) return span;
  std::string section = parent_path(path);
  while (sections.count(section) == 0 && !section.empty()) section = parent_path(section);
  const auto found = sections.find(section);
  return found == sections.end() ? Span{} : found->second;
}

void Reading::problem(const std::string& code, const std::string& path, const std::string& message,
                      const std::string& help, const std::string& label) {
  problems.add(code, where(path), pointer_of(path), message, help, label);
}

std::string pointer_of(const std::string& path) {
  std::string pointer = "/" + path;
  std::replace(pointer.begin(), pointer.end(), '.', '/');
  return pointer;
}

void read_document(const JsonValue& document, Reading& reading) {
  DocumentReader(reading).read_section(document, "", "");
  fill_defaults(reading);
}

}  // namespace shardsim

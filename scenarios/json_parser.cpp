#include <algorithm>
#include <numeric>
#include <string_view>

#include "scenarios/json_scanner.hpp"
#include "scenarios/json_value.hpp"

namespace shardsim {

namespace {

class Parser {
 public:
  Parser(const SourceText& source, ProblemList& problems, const JsonLimits& limits)
      : scanner_(source, limits), problems_(&problems), limits_(&limits) {}

  JsonValue parse_document() {
    JsonValue value = parse_value(1);
    if (scanner_.peek() != JsonScanner::kEnd) {
      scanner_.fail("E0002", scanner_.offset(), 1, "text after the end of the document",
                    "a file holds one JSON object");
    }
    return value;
  }

 private:
  JsonValue parse_value(int depth) {
    const char c = scanner_.peek();
    const std::size_t start = scanner_.offset();
    if (++num_nodes_ > limits_->max_nodes) {
      scanner_.fail("E0003", start, 1,
                    "more than " + std::to_string(limits_->max_nodes) + " values in one file");
    }
    switch (c) {
      case '{':
      case '[':
        // Checked before going down, so that depth costs no stack.
        if (depth > limits_->max_depth) {
          scanner_.fail("E0003", start, 1,
                        "nested more than " + std::to_string(limits_->max_depth) + " levels deep");
        }
        return c == '{' ? parse_object(depth) : parse_array(depth);
      case '"': {
        std::string text = scanner_.read_string();
        return {std::move(text), scanner_.span_from(start)};
      }
      case JsonScanner::kEnd:
        scanner_.fail("E0002", start, 1, "the text ends where a value is expected");
      default:
        return c == '-' || (c >= '0' && c <= '9') ? scanner_.read_number()
                                                  : scanner_.read_literal();
    }
  }

  // Whether the closing bracket stands here; it is then behind the reader.
  bool closes(char closing) {
    const bool is_there = scanner_.peek() == closing;
    if (is_there) scanner_.skip();
    return is_there;
  }

  // After an element: true if another one follows, false at the closing bracket.
  bool another(std::size_t opened_at, char closing) {
    const std::size_t end_of_element = scanner_.offset();
    if (closes(closing)) return false;
    const char c = scanner_.peek();
    const std::size_t start = scanner_.offset();
    if (c == JsonScanner::kEnd) {
      scanner_.fail("E0002", opened_at, 1, "this bracket is never closed",
                    std::string("add the missing ") + closing);
    }
    if (c != ',') {
      const bool is_key = c == '"' && closing == '}';  // Only a comma can stand before it.
      scanner_.fail("E0002", start, 1, std::string("expected ',' or '") + closing + "' here",
                    c == '}' || c == ']' ? "brackets close in the order they were opened"
                                         : "a comma is missing before this",
                    is_key ? Fix{"write the missing comma", {{end_of_element, 0, ","}}} : Fix{});
    }
    scanner_.skip();
    if (scanner_.peek() == closing) {
      scanner_.fail("E0002", start, 1, std::string("a comma before '") + closing + "'",
                    "remove the comma", {"remove the comma", {{start, 1, ""}}});
    }
    return true;
  }

  JsonValue parse_array(int depth) {
    const std::size_t start = scanner_.offset();
    JsonArray items;
    scanner_.skip();
    for (bool more = !closes(']'); more; more = another(start, ']')) {
      path_.push_back(std::to_string(items.size()));
      items.push_back(parse_value(depth + 1));
      path_.pop_back();
    }
    return {std::move(items), scanner_.span_from(start)};
  }

  JsonValue parse_object(int depth) {
    const std::size_t start = scanner_.offset();
    JsonObject members;
    scanner_.skip();
    for (bool more = !closes('}'); more; more = another(start, '}')) {
      const char c = scanner_.peek();
      const std::size_t key_start = scanner_.offset();
      if (c == JsonScanner::kEnd) {
        scanner_.fail("E0002", start, 1, "this bracket is never closed", "add the missing }");
      }
      if (c != '"') {
        scanner_.fail("E0002", key_start, 1, "expected a key here", "keys stand in double quotes");
      }
      if (members.size() >= limits_->max_members) {
        scanner_.fail("E0003", key_start, 1,
                      "more than " + std::to_string(limits_->max_members) + " keys in one object");
      }
      std::string key = scanner_.read_string();
      const Span key_span = scanner_.span_from(key_start);
      if (scanner_.peek() != ':') {
        scanner_.fail("E0002", key_start, key_span.length,
                      "no ':' after the key \"" + printable(key, 40) + "\"");
      }
      scanner_.skip();
      path_.push_back(key);
      JsonValue value = parse_value(depth + 1);
      path_.pop_back();
      members.push_back({std::move(key), key_span, std::move(value)});
    }
    drop_duplicates(members);
    return {std::move(members), scanner_.span_from(start)};
  }

  // By sorting: comparing each key with each other would let a long file take seconds.
  void drop_duplicates(JsonObject& members) {
    std::vector<std::size_t> order(members.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&members](std::size_t a, std::size_t b) {
      return members[a].key < members[b].key;
    });
    std::vector<bool> repeated(members.size(), false);
    std::size_t first = 0;
    for (std::size_t i = 1; i < order.size(); ++i) {
      if (members[order[i]].key != members[order[first]].key) {
        first = i;
        continue;
      }
      repeated[order[i]] = true;
      report_duplicate(members[order[i]], members[order[first]]);
    }
    std::size_t index = 0;
    std::erase_if(members, [&](const JsonMember&) { return repeated[index++]; });
  }

  void report_duplicate(const JsonMember& repeat, const JsonMember& first) {
    if (problems_->full()) {
      return;  // Saves building a pointer that nobody will see.
    }
    std::string pointer;
    for (const std::string& step : path_) pointer = pointer_to(pointer, step);
    problems_->add("E0004", repeat.key_span, pointer_to(pointer, repeat.key),
                   "the key \"" + printable(repeat.key, 40) + "\" stands here twice",
                   "keep one of them; the first is in line " +
                       std::to_string(position_of(first.key_span).line));
  }

  JsonScanner scanner_;
  ProblemList* problems_;
  const JsonLimits* limits_;
  std::size_t num_nodes_ = 0;
  std::vector<std::string> path_;  // keys and indices from the root to the value being read
};

// Things that no place inside the grammar can report well.
bool check_bytes(const SourceText& source, ProblemList& problems, const JsonLimits& limits) {
  const std::string& text = source.text;
  const auto refuse = [&](const char* code, std::size_t offset, std::size_t length,
                          const std::string& message, const std::string& help,
                          const Fix& fix = {}) {
    problems.add(code, {&source, offset, length}, "", message, help, "", fix);
    return false;
  };
  if (text.size() > limits.max_bytes) {
    return refuse("E0003", 0, 1, "more than " + std::to_string(limits.max_bytes) + " bytes",
                  "is this the right file?");
  }
  constexpr std::string_view kUtf8Mark = "\xef\xbb\xbf";
  if (text.rfind(kUtf8Mark, 0) == 0) {
    return refuse("E0005", 0, kUtf8Mark.size(), "the file starts with a byte order mark",
                  "save it as UTF-8 without one",
                  {"remove the byte order mark", {{0, kUtf8Mark.size(), ""}}});
  }
  if (text.rfind("\xff\xfe", 0) == 0 || text.rfind("\xfe\xff", 0) == 0) {
    return refuse("E0005", 0, 2, "the file starts with a byte order mark",
                  "save it as UTF-8 without one");
  }
  const std::size_t nul = text.find('\0');
  if (nul != std::string::npos) {
    return refuse("E0005", nul, 1, "a NUL byte", "save the file as UTF-8 text");
  }
  return true;
}

}  // namespace

std::optional<double> JsonValue::number() const {
  if (const auto* whole = std::get_if<std::int64_t>(&data)) return static_cast<double>(*whole);
  const auto* real = std::get_if<double>(&data);
  return real == nullptr ? std::nullopt : std::optional(*real);
}

const JsonValue* JsonValue::find(const std::string& key) const {
  const auto found = std::find_if(object().begin(), object().end(),
                                  [&key](const JsonMember& member) { return member.key == key; });
  return found == object().end() ? nullptr : &found->value;
}

JsonValue* JsonValue::find(const std::string& key) {
  return const_cast<JsonValue*>(std::as_const(*this).find(key));
}

std::string describe(const JsonValue& value) {
  const auto as_written = [&value] {
    return printable(value.span.source->text.substr(value.span.offset, value.span.length), 40);
  };
  switch (value.data.index()) {
    case 0:
      return "null";
    case 1:
      return std::get<bool>(value.data) ? "true" : "false";
    case 2:
    case 3:
      return "the number " + as_written();
    case 4:
      return "the string \"" + printable(value.string(), 40) + "\"";
    case 5:
      return "a list";
    default:
      return "an object";
  }
}

std::optional<JsonValue> parse_json(const SourceText& source, ProblemList& problems,
                                    const JsonLimits& limits) {
  if (!check_bytes(source, problems, limits)) return std::nullopt;
  try {
    return Parser(source, problems, limits).parse_document();
  } catch (const JsonSyntaxError& error) {
    problems.add(error.code, {&source, error.offset, error.length}, "", error.message, error.help,
                 "", error.fix);
    return std::nullopt;
  }
}

}  // namespace shardsim

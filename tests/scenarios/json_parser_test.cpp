#include <limits>
#include <memory>
#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <rapidcheck/catch.h>

#include "scenarios/json_value.hpp"

using namespace shardsim;

namespace {

struct Parsed {
  SourceTexts texts;
  std::optional<JsonValue> value;
  ProblemList problems;
};

// Behind a pointer: values point into the texts, which must not move.
std::unique_ptr<Parsed> parse(const std::string& text, const JsonLimits& limits = {}) {
  auto parsed = std::make_unique<Parsed>();
  parsed->texts.push_back({"t.json", text, false});
  parsed->value = parse_json(parsed->texts.back(), parsed->problems, limits);
  return parsed;
}

std::string place(const Span& span) {
  const Position p = position_of(span);
  return std::to_string(p.line) + ":" + std::to_string(p.column) + "+" +
         std::to_string(span.length);
}

nlohmann::json to_nlohmann(const JsonValue& value) {
  nlohmann::json result;
  if (value.is_object()) {
    result = nlohmann::json::object();
    for (const JsonMember& member : value.object()) {
      result[member.key] = to_nlohmann(member.value);
    }
  } else if (value.is_array()) {
    result = nlohmann::json::array();
    for (const JsonValue& item : value.array()) {
      result.push_back(to_nlohmann(item));
    }
  } else if (value.is_string()) {
    result = value.string();
  } else if (const auto* truth = std::get_if<bool>(&value.data)) {
    result = *truth;
  } else if (const auto* whole = std::get_if<std::int64_t>(&value.data)) {
    result = *whole;
  } else if (const auto* number = std::get_if<double>(&value.data)) {
    result = *number;
  }
  return result;
}

// Where this reader is stricter than nlohmann's on purpose.
bool stricter_on_purpose(const Parsed& parsed) {
  const Problem& p = parsed.problems.problems().front();
  return p.code == "E0003" || p.code == "E0004" || p.code == "E0006" ||
         p.message.find("byte order mark") != std::string::npos ||
         p.message.find("NUL") != std::string::npos;
}

// Texts that are nearly JSON: pieces of it in any order.
rc::Gen<std::string> nearly_json() {
  const auto piece = rc::gen::element<std::string>(
      "{", "}", "[", "]", ":", ",", "\"a\"", "\"b\"", "\"\\u00e9\"", "\"\\ud83d\\ude00\"",
      "\"\\ud83d\"", "\"\xc3\xa9\"", "\"\xc3\"", "1", "-1", "0", "-0", "01", "1.5", "1e3", "1E-2",
      "1.", "1e", ".5", "+1", "true", "false", "null", "nul", " ", "\n", "\t", "// c\n", "/* c */",
      "/*", "/", "\"", "\\", "\"a\":1", "{\"a\":[1,2]}", "[]", "{}", "\x01", "9223372036854775807",
      "-9223372036854775808", "18446744073709551616", "1e400", "NaN", "\xef\xbb\xbf");
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(piece),
                      [](const std::vector<std::string>& pieces) {
                        std::string text;
                        for (const std::string& p : pieces) {
                          text += p;
                        }
                        return text;
                      });
}

// A random value, written by nlohmann's own writer.
nlohmann::json random_value(int depth) {
  const int kind = *rc::gen::inRange(0, depth > 0 ? 8 : 6);
  nlohmann::json value;
  switch (kind) {
    case 0:
      return *rc::gen::arbitrary<bool>();
    case 1:
      return *rc::gen::arbitrary<std::int64_t>();
    case 2:
      return *rc::gen::arbitrary<double>();
    case 3:
    case 4:
      return *rc::gen::element<std::string>("", "a", "\xc3\xa9", "\xf0\x9f\x98\x80", "\n\t\"\\/",
                                            "\x01");
    case 5:
      return value;
    default:
      break;
  }
  const int size = *rc::gen::inRange(0, 4);
  value = kind == 6 ? nlohmann::json::array() : nlohmann::json::object();
  for (int i = 0; i < size; ++i) {
    if (kind == 6) {
      value.push_back(random_value(depth - 1));
    } else {
      value["k" + std::to_string(i)] = random_value(depth - 1);
    }
  }
  return value;
}

bool agrees_with_nlohmann(const std::string& text) {
  const auto ours = parse(text);
  const nlohmann::json theirs = nlohmann::json::parse(text, nullptr, false, true);
  if (!ours->problems.empty()) {
    return theirs.is_discarded() || stricter_on_purpose(*ours);
  }
  return !theirs.is_discarded() && to_nlohmann(*ours->value) == theirs;
}

}  // namespace

TEST_CASE("values and keys know their line, column and length") {
  const auto parsed = parse("{\n  \"a\": [1, -2.5e3, \"é\", true],\r\n\t\"b\": {\"c\": null} }");
  REQUIRE(parsed->value.has_value());
  const JsonObject& root = parsed->value->object();
  CHECK(place(parsed->value->span) == "1:1+54");
  CHECK(place(root[0].key_span) == "2:3+3");
  const JsonArray& a = root[0].value.array();
  CHECK(place(root[0].value.span) == "2:8+23");
  CHECK(place(a[0].span) == "2:9+1");
  CHECK(place(a[1].span) == "2:12+6");
  CHECK(place(a[2].span) == "2:20+4");
  CHECK(place(a[3].span) == "2:25+4");  // "é" is two bytes and one column
  CHECK(place(root[1].key_span) == "3:2+3");
  CHECK(place(root[1].value.find("c")->span) == "3:13+4");
}

TEST_CASE("whole numbers stay whole and others become doubles") {
  const auto parsed =
      parse("[9223372036854775807, -9223372036854775808, 9223372036854775808, 1e2, 2.0]");
  const JsonArray& a = parsed->value->array();
  CHECK(std::get<std::int64_t>(a[0].data) == INT64_MAX);
  CHECK(std::get<std::int64_t>(a[1].data) == INT64_MIN);
  CHECK(std::get<double>(a[2].data) == 9223372036854775808.0);
  CHECK(std::get<double>(a[3].data) == 100.0);
  CHECK(std::get<double>(a[4].data) == 2.0);
}

TEST_CASE("infinity is a number for files that Python has written, and nowhere else") {
  JsonLimits limits;
  limits.has_infinity = true;
  const auto read = parse("[0.0, Infinity]", limits);
  REQUIRE(read->value);
  CHECK(read->value->array().back().number() == std::numeric_limits<double>::infinity());
  CHECK(place(read->value->array().back().span) == "1:7+8");
  CHECK_FALSE(parse("[0.0, Infinity]")->value);
  for (const char* text : {"[-Infinity]", "[NaN]", "[Infinity1]", "[infinity]"}) {
    INFO(text);
    CHECK_FALSE(parse(text, limits)->value);
  }
}

TEST_CASE("escapes become UTF-8") {
  const auto parsed = parse(R"(["\u0041\u00e9\u20ac\ud83d\ude00\n\t\"\\\/"])");
  CHECK(parsed->value->array()[0].string() == "Aé€😀\n\t\"\\/");
}

TEST_CASE("duplicate keys are all reported, with their pointers, and the first is kept") {
  const auto parsed = parse(R"({"a": 1, "b": [{"x": 1, "x": 2, "x": 3}], "a": 4})");
  REQUIRE(parsed->problems.problems().size() == 3);
  CHECK(parsed->problems.problems()[0].pointer == "/b/0/x");
  CHECK(parsed->problems.problems()[1].pointer == "/b/0/x");
  CHECK(parsed->problems.problems()[2].pointer == "/a");
  CHECK(std::get<std::int64_t>(parsed->value->find("a")->data) == 1);
}

TEST_CASE("each limit holds exactly at its value") {
  JsonLimits limits;
  limits.max_depth = 3;
  limits.max_string_bytes = 4;
  limits.max_nodes = 5;
  limits.max_bytes = 40;
  limits.max_members = 2;
  const auto code = [&limits](const std::string& text) {
    const auto parsed = parse(text, limits);
    return parsed->problems.empty() ? "" : parsed->problems.problems()[0].code;
  };
  CHECK(code("[[[1]]]").empty());
  CHECK(code("[[[[1]]]]") == "E0003");
  CHECK(code("\"abcd\"").empty());
  CHECK(code("\"abcde\"") == "E0003");
  CHECK(code("[1,2,3,4]").empty());
  CHECK(code("[1,2,3,4,5]") == "E0003");
  CHECK(code(R"({"a":1,"b":2})").empty());
  CHECK(code(R"([{"a":1},{"b":2}])").empty());
  CHECK(code(R"({"a":1,"b":2,"c":3})") == "E0003");
  CHECK(code("1" + std::string(39, ' ')).empty());
  CHECK(code("1" + std::string(40, ' ')) == "E0003");
}

TEST_CASE("nearly JSON is accepted or refused as nlohmann/json does, with equal values") {
  rc::prop("pieces of JSON in any order", [] {
    const std::string text = *nearly_json();
    RC_CLASSIFY(nlohmann::json::accept(text, true), "valid");
    RC_ASSERT(agrees_with_nlohmann(text));
  });
  rc::prop("a valid text is read back as the value it was written from", [] {
    const nlohmann::json value = random_value(4);
    const std::string text = value.dump(*rc::gen::inRange(-1, 3), ' ', *rc::gen::arbitrary<bool>());
    const auto ours = parse(text);
    RC_ASSERT((!ours->problems.empty() || to_nlohmann(*ours->value) == value));
    RC_ASSERT((ours->problems.empty() || stricter_on_purpose(*ours)));
  });
  rc::prop("a valid text with one byte changed", [] {
    std::string text =
        "{\"a\": [1, -2.5e3, \"\xc3\xa9\\u20ac\", true], /* c */ \"b\": {\"c\": null, \"d\": "
        "\"x\"}}";
    text[*rc::gen::inRange<std::size_t>(0, text.size())] = *rc::gen::arbitrary<char>();
    RC_ASSERT(agrees_with_nlohmann(text));
  });
}

TEST_CASE("a value's span is its text: parsed alone it is the same value") {
  rc::prop("spans", [] {
    const std::string text = *nearly_json();
    const auto parsed = parse("[\n " + text + "\n]");
    if (!parsed->problems.empty()) {
      return;
    }
    for (const JsonValue& item : parsed->value->array()) {
      const std::string own = item.span.source->text.substr(item.span.offset, item.span.length);
      RC_ASSERT(to_nlohmann(*parse(own)->value) == to_nlohmann(item));
    }
  });
}

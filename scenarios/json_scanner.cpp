#include "scenarios/json_scanner.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>
#include <system_error>

#include "sim/kernel/text.hpp"

namespace shardsim {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' ||
         c == '+' || c == '-';
}

void append_utf8(std::string& out, char32_t c) {
  const auto byte = [&out](char32_t bits) {
    out += static_cast<char>(static_cast<unsigned char>(bits));
  };
  // The first byte says how many follow, each with six bits.
  constexpr std::array<char32_t, 4> kFirst = {0, 0xc0, 0xe0, 0xf0};
  const std::size_t following = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  byte(kFirst.at(following) | (c >> 6U * following));
  for (std::size_t left = following; left-- > 0;) byte(0x80U | ((c >> 6U * left) & 0x3fU));
}

}  // namespace

void JsonScanner::fail(const std::string& code, std::size_t offset, std::size_t length,
                       const std::string& message, const std::string& help, const Fix& fix) const {
  throw JsonSyntaxError{code, offset, length, message, help, fix};
}

char JsonScanner::peek() {
  while (!at_end()) {
    const char c = text_[at_];
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      ++at_;
    } else if (c == '/') {
      skip_comment();
    } else {
      return c;
    }
  }
  return kEnd;
}

void JsonScanner::skip_comment() {
  const std::size_t start = at_;
  if (look(1) == '/') {
    const std::size_t newline = text_.find('\n', at_);
    at_ = newline == std::string::npos ? text_.size() : newline + 1;
    return;
  }
  if (look(1) == '*') {
    // One step per byte: searching for the pair of characters is slow on a long row of either.
    for (at_ += 2; !at_end(); ++at_) {
      if (look() == '*' && look(1) == '/') {
        at_ += 2;
        return;
      }
    }
    fail("E0002", start, 2, "this comment never ends", "close it with */");
  }
  fail("E0002", start, 1, "a lone '/'", "comments start with // or /*");
}

std::string JsonScanner::read_string() {
  const std::size_t start = at_;
  std::string out;
  ++at_;
  while (look() != '"') {
    if (at_end() || look() == '\n') {
      fail("E0002", start, at_ - start, "this string never ends", "close it with \"");
    }
    if (look() == '\\') {
      read_escape(out);
    } else {
      read_character(out);
    }
    if (out.size() > limits_->max_string_bytes) {
      fail("E0003", start, 1,
           "a string longer than " + std::to_string(limits_->max_string_bytes) + " bytes",
           "no field of a scenario needs that much");
    }
  }
  ++at_;
  return out;
}

std::size_t JsonScanner::character_length() const {
  char32_t character = 0;
  const auto length = static_cast<std::size_t>(decode_utf8(text_, at_, character));
  if (length == 0) fail("E0005", at_, 1, "this byte is not valid UTF-8", "save the file as UTF-8");
  return length;
}

void JsonScanner::read_character(std::string& out) {
  if (static_cast<unsigned char>(look()) < 0x20) {
    fail("E0002", at_, 1, "a control character inside a string", "write it as \\u00XX");
  }
  const std::size_t length = character_length();
  out.append(text_, at_, length);
  at_ += length;
}

void JsonScanner::read_escape(std::string& out) {
  const std::size_t start = at_;
  const char kind = look(1);
  constexpr std::string_view kKinds = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  at_ += 2;
  if (kind != 'u') {
    const std::size_t index = kind == kEnd ? std::string_view::npos : kKinds.find(kind);
    if (index == std::string_view::npos) {
      fail("E0002", start, 2, "an unknown escape in a string",
           "JSON knows \\\" \\\\ \\/ \\b \\f \\n \\r \\t and \\uXXXX");
    }
    out += kMeanings[index];
    return;
  }
  char32_t character = read_hex4();
  if (character >= 0xd800 && character <= 0xdbff && look() == '\\' && look(1) == 'u') {
    at_ += 2;
    const char32_t low = read_hex4();
    if (low >= 0xdc00 && low <= 0xdfff) {
      character = 0x10000 + ((character - 0xd800) << 10U) + (low - 0xdc00);
    }
  }
  if (character >= 0xd800 && character <= 0xdfff) {
    fail("E0005", start, at_ - start, "half of a surrogate pair stands alone",
         "write the character itself, or both halves");
  }
  append_utf8(out, character);
}

char32_t JsonScanner::read_hex4() {
  unsigned value = 0;
  const char* first = text_.data() + at_;
  const char* last = first + (at_ + 4 <= text_.size() ? 4 : 0);
  const auto [end, error] = std::from_chars(first, last, value, 16);
  if (first == last || error != std::errc{} || end != last || *first == '-') {
    fail("E0002", at_ - 2, 2, "\\u needs four hexadecimal digits");
  }
  at_ += 4;
  return value;
}

std::size_t JsonScanner::skip_digits() {
  const std::size_t start = at_;
  while (is_digit(look())) ++at_;
  return at_ - start;
}

JsonValue JsonScanner::read_number() {
  const std::size_t start = at_;
  const auto malformed = [&](const std::string& why) {
    while (is_word(look())) ++at_;
    const std::string word = text_.substr(start, at_ - start);
    fail("E0002", start, at_ - start, "\"" + printable(word, 40) + "\" is not a JSON number", why);
  };
  if (look() == '-') ++at_;
  const std::size_t whole_start = at_;
  const std::size_t whole_digits = skip_digits();
  if (whole_digits == 0) malformed("a number starts with a digit and is finite");
  if (whole_digits > 1 && text_[whole_start] == '0') malformed("a number does not start with 0");
  bool integral = true;
  if (look() == '.') {
    integral = false;
    ++at_;
    if (skip_digits() == 0) malformed("a digit follows the point");
  }
  if (look() == 'e' || look() == 'E') {
    integral = false;
    at_ += look(1) == '+' || look(1) == '-' ? 2 : 1;
    if (skip_digits() == 0) malformed("a digit follows the e");
  }
  if (is_word(look())) malformed("only digits, one point and one exponent belong to a number");
  JsonValue value{{}, span_from(start)};
  const char* first = text_.data() + start;
  const char* last = text_.data() + at_;
  std::int64_t whole = 0;
  if (integral && std::from_chars(first, last, whole).ec == std::errc{}) {
    value.data = whole;
    return value;
  }
  double number = 0;
  if (std::from_chars(first, last, number).ec != std::errc{} || !std::isfinite(number)) {
    fail("E0006", start, at_ - start,
         "the number " + printable(text_.substr(start, at_ - start), 40) +
             " is outside what a 64-bit float can hold",
         "magnitudes from 1e-307 to 1e308 can be read");
  }
  value.data = number;
  return value;
}

JsonValue JsonScanner::read_literal() {
  const std::size_t start = at_;
  while (is_word(look())) ++at_;
  const std::string word = text_.substr(start, at_ - start);
  JsonValue value{{}, span_from(start)};
  if (word == "true" || word == "false") {
    value.data = word == "true";
    return value;
  }
  if (word == "null") return value;
  if (word == "Infinity" && limits_->has_infinity) {
    value.data = std::numeric_limits<double>::infinity();
    return value;
  }
  std::string help = "strings stand in double quotes";
  if (word == "NaN" || word == "nan" || word == "Infinity" || word == "inf") {
    help = "numbers are finite";
  } else if (word == "True" || word == "False" || word == "None") {
    help = "JSON writes true, false and null";
  } else if (!word.empty() && (word[0] == '+' || word[0] == '.')) {
    help = "a number starts with a digit or '-'";
  }
  if (word.empty()) {
    const std::size_t length = character_length();
    const std::string shown = printable(text_.substr(start, length));
    if (shown == "}" || shown == "]" || shown == "," || shown == ":") {
      fail("E0002", start, 1, "a value is missing before '" + shown + "'");
    }
    fail("E0002", start, length, "no value can start with " + shown, help);
  }
  fail("E0002", start, at_ - start, "\"" + printable(word, 40) + "\" is not a JSON value", help);
}

}  // namespace shardsim

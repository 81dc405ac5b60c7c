#pragma once

// The words of a JSON text: strings, numbers, literals, and the space and comments between them.

#include <cstddef>
#include <string>

#include "scenarios/json_value.hpp"

namespace shardsim {

/// Thrown and caught inside parse_json only.
struct JsonSyntaxError {
  std::string code;
  std::size_t offset;
  std::size_t length;
  std::string message;
  std::string help;
  Fix fix = {};
};

class JsonScanner {
 public:
  static constexpr char kEnd = '\0';  // a NUL byte in the text is refused before scanning

  JsonScanner(const SourceText& source, const JsonLimits& limits)
      : source_(&source), text_(source.text), limits_(&limits) {}

  std::size_t offset() const { return at_; }
  Span span_from(std::size_t start) const { return {source_, start, at_ - start}; }

  /// Next character after space and comments, not consumed; kEnd at the end.
  char peek();
  void skip() { ++at_; }

  /// Each reads one word and leaves the place behind it. REQUIRES: peek() was just called.
  std::string read_string();
  JsonValue read_number();
  JsonValue read_literal();

  [[noreturn]] void fail(const std::string& code, std::size_t offset, std::size_t length,
                         const std::string& message, const std::string& help = "",
                         const Fix& fix = {}) const;

 private:
  bool at_end() const { return at_ >= text_.size(); }
  char look(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : kEnd;
  }
  void skip_comment();
  /// The bytes of the character here. Throws where they are not valid UTF-8.
  std::size_t character_length() const;
  void read_character(std::string& out);
  void read_escape(std::string& out);
  char32_t read_hex4();
  std::size_t skip_digits();

  const SourceText* source_;
  const std::string& text_;
  const JsonLimits* limits_;
  std::size_t at_ = 0;
};

}  // namespace shardsim

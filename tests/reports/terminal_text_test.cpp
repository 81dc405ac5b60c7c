#include "reports/terminal_text.hpp"

#include <catch2/catch.hpp>
#include <rapidcheck/catch.h>

namespace shardsim {
namespace {

TEST_CASE("names cannot act on the terminal") {
  REQUIRE(escape_untrusted("plain café 模型") == "plain café 模型");
  REQUIRE(escape_untrusted("a\x1b[31mb") == "a\\x1b[31mb");
  REQUIRE(escape_untrusted("a\nb\tc\rd") == "a\\nb\\tc\\x0dd");
  REQUIRE(escape_untrusted("\x7f") == "\\x7f");
  REQUIRE(escape_untrusted("\xc2\x9b"
                           "31m") == "\\x9b31m");  // C1: one-character CSI.
  REQUIRE(escape_untrusted("\xe2\x80\xae"
                           "cod") == "\\u202ecod");  // Right-to-left override.
  REQUIRE(escape_untrusted("\xef\xbb\xbfx") == "\\ufeffx");
  REQUIRE(escape_untrusted("\xff\xc3") == "\\xff\\xc3");           // Not UTF-8.
  REQUIRE(escape_untrusted("\xc0\xaf") == "\\xc0\\xaf");           // Overlong.
  REQUIRE(escape_untrusted("\xed\xa0\x80") == "\\xed\\xa0\\x80");  // A surrogate.
  REQUIRE(escape_untrusted(std::string_view("\0", 1)) == "\\x00");
}

TEST_CASE("escaped text holds no control byte, whatever came in") {
  rc::prop("no byte below space, no DEL", [](const std::string& text) {
    for (const char c : escape_untrusted(text)) {
      RC_ASSERT(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
    }
  });
}

TEST_CASE("width counts columns, not bytes") {
  REQUIRE(display_width("abc") == 3);
  REQUIRE(display_width("café") == 4);
  REQUIRE(display_width("模型") == 4);
  REQUIRE(display_width("e\xcc\x81") == 1);
  REQUIRE(display_width("█▏") == 2);
}

TEST_CASE("cut text shows that it was cut") {
  REQUIRE(truncate_to_width("abcdef", 6) == "abcdef");
  REQUIRE(truncate_to_width("abcdef", 5) == "abcd…");
  REQUIRE(truncate_to_width("模型模型", 4) == "模…");
  REQUIRE(truncate_to_width("ab", 1) == "…");
}

TEST_CASE("wrapped lines fit and lose nothing but spaces") {
  REQUIRE(wrap_to_width("one two three", 7, 2) == std::vector<std::string>{"one two", "  three"});
  REQUIRE(wrap_to_width("abcdefghij", 4, 1) == std::vector<std::string>{"abcd", " efg", " hij"});
  REQUIRE(wrap_to_width("", 4, 1) == std::vector<std::string>{""});
  rc::prop("every line fits", [](const std::string& text) {
    const std::string safe = escape_untrusted(text);
    std::string joined;
    for (const std::string& line : wrap_to_width(safe, 10, 3)) {
      RC_ASSERT(display_width(line) <= 10u);
      joined += line;
    }
    const auto without_spaces = [](std::string s) {
      std::erase(s, ' ');
      return s;
    };
    RC_ASSERT(without_spaces(joined) == without_spaces(safe));
  });
}

TEST_CASE("a bar has a resolution of eighths and a fixed width") {
  REQUIRE(draw_bar(0, 3) == "   ");
  REQUIRE(draw_bar(1, 3) == "▏  ");
  REQUIRE(draw_bar(12, 3) == "█▌ ");
  REQUIRE(draw_bar(24, 3) == "███");
}

}  // namespace
}  // namespace shardsim

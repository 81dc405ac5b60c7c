#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "sim/harness/schedule.hpp"
#include "tests/property/check_property.hpp"

// Replay tokens are pasted by hand: what is not one must say so.
namespace shardsim {
namespace {

ReplayToken some_token() {
  return {.name = "ring",
          .ranks = 8,
          .steps = 3,
          .seed = 5,
          .schedule = {.sends = SendMode::drawn, .seed = 77, .decisions = {0, 0, 0, 2, 1, 1}},
          .layout = 4};
}

std::string code_of(const std::string& text, bool force = false) {
  try {
    (void)parse_token(text, force);
  } catch (const UsageError& error) {
    return error.code();
  }
  return {};
}

// `text` with field `number` replaced, and a checksum that fits.
std::string with_field(const std::string& text, int number, const std::string& value) {
  std::vector<std::string> fields(1);
  for (const char c : text) {
    if (c == '.') {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  fields.pop_back();
  fields[static_cast<std::size_t>(number)] = value;
  std::string changed;
  for (const std::string& field : fields) changed += (changed.empty() ? "" : ".") + field;
  return changed + "." + token_checksum(changed);
}

}  // namespace

TEST_CASE("a token is one word, and says what it was made of") {
  const std::string text = to_text(some_token());
  CHECK(text.find_first_of(" \t\n\"'$&;|<>*?") == std::string::npos);
  CHECK(parse_token(text) == some_token());
  CHECK(text.find(".0x3_2_1x2.") != std::string::npos);
}

TEST_CASE("every schedule survives its token") {
  test::check_property(100, [](const std::vector<std::uint16_t>& decisions, std::uint64_t seed) {
    ReplayToken token = some_token();
    token.seed = seed;
    token.schedule.decisions = decisions;
    RC_ASSERT(parse_token(to_text(token)) == token);
  });
}

TEST_CASE("a damaged token is refused, wherever the damage is") {
  const std::string text = to_text(some_token());
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = damaged[i] == '7' ? '8' : '7';
    INFO(damaged);
    CHECK(!code_of(damaged).empty());
  }
  for (const char* const none : {"", ".", "1", "1.2.3", "1........"})
    CHECK(code_of(none) == "E1201");
}

TEST_CASE("numbers that nothing could have made are refused, and allocate nothing") {
  const std::string text = to_text(some_token());
  CHECK(code_of(with_field(text, 3, "0")) == "E1201");
  CHECK(code_of(with_field(text, 3, "99999999999999999999")) == "E1201");
  CHECK(code_of(with_field(text, 6, "3")) == "E1201");
  CHECK(code_of(with_field(text, 8, "1x18446744073709551615")) == "E1201");
  CHECK(code_of(with_field(text, 8, "65536")) == "E1201");
  CHECK(code_of(with_field(text, 8, "1x2x3")) == "E1201");
  CHECK(code_of(with_field(text, 9, "4294967296")) == "E1201");
}

TEST_CASE("a token of another build is refused, unless it is forced") {
  const std::string other = with_field(to_text(some_token()), 1, "0123456789ab");
  CHECK(code_of(other) == "E1202");
  CHECK(parse_token(other, /*force=*/true) == some_token());
}

}  // namespace shardsim

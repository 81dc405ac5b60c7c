#include "backends/rendezvous/token.hpp"

#include <fstream>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "tests/temporary_folder.hpp"

namespace shardsim {

TEST_CASE("tokens are 128 random bits") {
  const std::string token = make_token();
  CHECK(token.size() == 32);
  CHECK(token.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(token != make_token());
  CHECK(same_token(token, token));
  for (std::size_t i = 0; i < token.size(); ++i) {
    std::string other = token;
    other[i] = 'x';
    CHECK(!same_token(token, other));
  }
  CHECK(!same_token(token, token + "0"));
  CHECK(!same_token(token + std::string(1, '\0'), token));
  CHECK(!same_token(token, ""));
  CHECK(!same_token("", token));
}

TEST_CASE("a token comes from a file, or from a variable, and must not be short") {
  const test::TemporaryFolder folder;
  const std::string path = folder / "token";
  std::ofstream(path) << "0123456789abcdef\r\nmore\n";
  const auto lookup = [&](const char* file, const char* value) {
    return [=](const std::string& name) -> std::optional<std::string> {
      const char* const found = name == "SHARDSIM_TOKEN_FILE" ? file : value;
      if (found == nullptr) return std::nullopt;
      return found;
    };
  };
  CHECK(!find_token(lookup(nullptr, nullptr)));
  CHECK(find_token(lookup(path.c_str(), "fedcba9876543210")) == std::string("0123456789abcdef"));
  CHECK(find_token(lookup(nullptr, "fedcba9876543210")) == std::string("fedcba9876543210"));
  CHECK_THROWS_WITH(find_token(lookup(nullptr, "short")), Catch::Contains("SHARDSIM_TOKEN gives"));
  CHECK_THROWS_WITH(find_token(lookup("/nowhere/token", nullptr)),
                    Catch::Contains("/nowhere/token"));
}

}  // namespace shardsim

#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/kernel/error.hpp"

#include "backends/rendezvous/launch_environment.hpp"

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
  std::filesystem::permissions(path, std::filesystem::perms(0600));
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
                    Catch::Contains("/nowhere/token, which cannot be read: No such file"));
  std::ofstream(path) << std::string(1 << 20, 'x');
  CHECK_THROWS_WITH(find_token(lookup(path.c_str(), nullptr)),
                    "the first line of " + path +
                        " gives a token of over 256 characters; it must have 16 to 256");
}

TEST_CASE("a file with a token is its owner's alone") {
  const test::TemporaryFolder folder;
  const std::string path = folder / "token";
  std::ofstream(path) << "0123456789abcdef\n";
  const auto lookup = [&](const std::string& name) {
    return name == "SHARDSIM_TOKEN_FILE" ? std::optional(path) : std::nullopt;
  };
  for (const unsigned mode : {0644U, 0640U, 0604U, 0620U, 0601U}) {
    std::filesystem::permissions(path, std::filesystem::perms(mode));
    CHECK_THROWS_WITH(find_token(lookup),
                      "SHARDSIM_TOKEN_FILE names " + path + ", which others may read or write");
  }
  for (const unsigned mode : {0600U, 0400U, 0700U}) {
    std::filesystem::permissions(path, std::filesystem::perms(mode));
    CHECK(find_token(lookup) == "0123456789abcdef");
  }
  if (geteuid() == 0) {
    REQUIRE(chown(path.c_str(), 65534, 65534) == 0);
    CHECK_THROWS_WITH(find_token(lookup), Catch::Contains("which belongs to another user"));
  }
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  CHECK_THROWS_WITH(find_token(lookup), Catch::Contains("which is not a regular file"));
  std::filesystem::remove(path);
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  CHECK_THROWS_WITH(find_token(lookup), Catch::Contains("which is not a regular file"));
}

}  // namespace shardsim

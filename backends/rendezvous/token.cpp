#include "backends/rendezvous/token.hpp"

#include <array>
#include <cerrno>
#include <fstream>

#include <sys/random.h>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

constexpr std::size_t kShortestToken = 16;
constexpr std::size_t kLongestToken = 256;

void check_token_length(const std::string& token, const std::string& source) {
  if (token.size() >= kShortestToken && token.size() <= kLongestToken) return;
  throw Error(ExitCode::bad_usage, "E1003",
              source + " gives a token of " + std::to_string(token.size()) +
                  " characters; it must have " + std::to_string(kShortestToken) + " to " +
                  std::to_string(kLongestToken),
              "make one with: head -c 16 /dev/urandom | od -An -tx1 | tr -d ' '");
}

}  // namespace

std::string make_token() {
  std::array<unsigned char, 16> bytes{};
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = getrandom(bytes.data() + filled, bytes.size() - filled, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      throw Error(ExitCode::backend_failed, "E1002",
                  "the operating system gives no random numbers for the token of the rendezvous",
                  "set SHARDSIM_TOKEN to a secret of your own");
    }
    filled += static_cast<std::size_t>(got);
  }
  constexpr const char* kDigits = "0123456789abcdef";
  std::string token;
  for (const unsigned char byte : bytes) {
    token += kDigits[byte >> 4U];
    token += kDigits[byte & 15U];
  }
  return token;
}

std::optional<std::string> find_token(const EnvironmentLookup& lookup) {
  if (const std::optional<std::string> path = lookup("SHARDSIM_TOKEN_FILE")) {
    std::ifstream file(*path);
    std::string token;
    if (!file || !std::getline(file, token)) {
      throw Error(ExitCode::bad_usage, "E1003",
                  "SHARDSIM_TOKEN_FILE names " + *path + ", which cannot be read or is empty",
                  "write the token into that file, readable for you alone");
    }
    while (!token.empty() && (token.back() == '\r' || token.back() == ' ')) token.pop_back();
    check_token_length(token, *path);
    return token;
  }
  std::optional<std::string> token = lookup("SHARDSIM_TOKEN");
  if (token) check_token_length(*token, "SHARDSIM_TOKEN");
  return token;
}

bool same_token(std::string_view a, std::string_view b) {
  // Every character is looked at, so that the time does not tell how many were right.
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const char other = i < b.size() ? b[i] : '\0';
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(other);
  }
  return difference == 0;
}

}  // namespace shardsim

#include "backends/rendezvous/token.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/kernel/descriptor.hpp"
#include "sim/kernel/error.hpp"

#include "backends/hex.hpp"

namespace shardsim {

namespace {

constexpr std::size_t kShortestToken = 16;
constexpr std::size_t kLongestToken = 256;

void check_token_length(const std::string& token, const std::string& source) {
  if (token.size() >= kShortestToken && token.size() <= kLongestToken) return;
  const std::string size = token.size() > kLongestToken ? "over " + std::to_string(kLongestToken)
                                                        : std::to_string(token.size());
  throw Error(ExitCode::bad_usage, "E1003",
              source + " gives a token of " + size + " characters; it must have " +
                  std::to_string(kShortestToken) + " to " + std::to_string(kLongestToken),
              "make one with: head -c 16 /dev/urandom | od -An -tx1 | tr -d ' '");
}

[[noreturn]] void refuse_file(const std::string& path, const std::string& why,
                              const std::string& fix) {
  throw Error(ExitCode::bad_usage, "E1003", "SHARDSIM_TOKEN_FILE names " + path + ", " + why, fix);
}

// A reader of the secret can join the run, and a writer can replace it.
void require_private(const std::string& path, const struct stat& status) {
  if (!S_ISREG(status.st_mode)) {
    refuse_file(path, "which is not a regular file", "write the token into a file");
  }
  constexpr mode_t kOfOthers = 077;
  if ((status.st_mode & kOfOthers) != 0) {
    refuse_file(path, "which others may read or write", "keep it to yourself: chmod 600 " + path);
  }
  if (status.st_uid != geteuid() && status.st_uid != 0) {
    refuse_file(path, "which belongs to another user", "make a file of your own");
  }
}

// Reads a little more than the longest token, so that a longer one is noticed.
std::string first_line_in(const std::string& path) {
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat status {};
  if (file.number() < 0 || ::fstat(file.number(), &status) != 0) {
    refuse_file(path, std::string("which cannot be read: ") + std::strerror(errno),
                "write the token into that file, readable for you alone");
  }
  require_private(path, status);
  std::string text(kLongestToken + 64, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(file.number(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  return text.substr(0, text.find('\n'));
}

}  // namespace

std::string make_token() {
  std::string bytes(16, '\0');
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
  return to_hex(bytes);
}

std::optional<std::string> find_token(const EnvironmentLookup& lookup) {
  if (const std::optional<std::string> path = lookup("SHARDSIM_TOKEN_FILE")) {
    std::string token = first_line_in(*path);
    while (!token.empty() && (token.back() == '\r' || token.back() == ' ')) token.pop_back();
    check_token_length(token, "the first line of " + *path);
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

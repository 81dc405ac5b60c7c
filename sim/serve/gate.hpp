#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The first check of a request. A page of another origin can send requests to a server on loopback,
// and a name that was rebound to 127.0.0.1 reaches it: so each request is checked before its body
// is read.
namespace shardsim {

/// The parts of a request's head that decide. Lists have each line of the field.
struct RequestHead {
  std::string_view method;
  std::string_view target;  ///< As it was sent: "/TOKEN/run".
  std::vector<std::string_view> hosts;
  std::vector<std::string_view> origins;
  std::vector<std::string_view> content_types;
  bool is_chunked = false;  ///< It has a Transfer-Encoding.
};

/// How the work of a request is done.
enum class Door : std::uint8_t { at_once, work, stream };

struct Route {
  std::string_view method;
  std::string_view name;  ///< Behind the token: "run"; "" is the page.
  Door door = Door::at_once;
};

/// The status of a refusal, or the route. A refusal has no words: they would help the wrong ones.
struct Admission {
  int refusal = 0;
  const Route* route = nullptr;
};

class Gate {
 public:
  /// `address`: as a URL has it, "127.0.0.1" or "[::1]". `token`: empty for none.
  Gate(const std::string& address, bool is_loopback, int port, std::string token);

  /// 403 for another Host, a foreign Origin, and a wrong token; then 404, 405 for the wrong method,
  /// 411 for a body of unknown size, and 415 for one that is not JSON.
  [[nodiscard]] Admission admit(const RequestHead& head) const;

  /// "http://127.0.0.1:8642/TOKEN/".
  [[nodiscard]] std::string url() const;

 private:
  [[nodiscard]] bool is_own_host(std::string_view host) const;
  [[nodiscard]] bool is_own_origin(std::string_view origin, std::string_view host) const;
  /// The path behind the token; nothing with a wrong token.
  [[nodiscard]] std::optional<std::string_view> behind_token(std::string_view target) const;

  std::vector<std::string> hosts_;  ///< The first is that of the URL.
  std::string token_;
};

}  // namespace shardsim

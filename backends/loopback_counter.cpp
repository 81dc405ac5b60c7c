#include "backends/loopback_counter.hpp"

#include <algorithm>
#include <fstream>
#include <vector>

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace shardsim {

namespace {

class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  [[nodiscard]] int get() const { return descriptor_; }

 private:
  int descriptor_;
};

// `bytes` from one end of a TCP connection to the other, in pieces that fit its buffers.
bool send_over_loopback(std::int64_t bytes) {
  const Socket listener(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* name = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener.get(), name, length) != 0 || listen(listener.get(), 1) != 0 ||
      getsockname(listener.get(), name, &length) != 0) {
    return false;
  }
  const Socket sender(socket(AF_INET, SOCK_STREAM, 0));
  if (connect(sender.get(), name, length) != 0) return false;
  const Socket receiver(accept(listener.get(), nullptr, nullptr));
  if (receiver.get() < 0) return false;
  std::vector<char> piece(16384);
  for (std::int64_t left = bytes; left > 0;) {
    const auto size =
        static_cast<std::size_t>(std::min(left, static_cast<std::int64_t>(piece.size())));
    if (send(sender.get(), piece.data(), size, MSG_NOSIGNAL) != static_cast<ssize_t>(size) ||
        recv(receiver.get(), piece.data(), size, MSG_WAITALL) != static_cast<ssize_t>(size)) {
      return false;
    }
    left -= static_cast<std::int64_t>(size);
  }
  return true;
}

}  // namespace

std::optional<std::int64_t> read_loopback_bytes(const std::string& file) {
  std::ifstream stream(file);
  std::int64_t bytes = 0;
  if (!(stream >> bytes)) return std::nullopt;
  return bytes;
}

ProbeRow probe_loopback_counter(std::int64_t bytes, const std::string& file) {
  ProbeRow row{.what = "loopback counter"};
  row.remedy = "nothing to do: bytes are then compared by the other counts only";
  const std::optional<std::int64_t> before = read_loopback_bytes(file);
  if (!before) {
    row.detail = file + " cannot be read";
    return row;
  }
  if (!send_over_loopback(bytes)) {
    row.detail = "no connection over 127.0.0.1";
    return row;
  }
  const std::int64_t seen = read_loopback_bytes(file).value_or(*before) - *before;
  row.available = seen >= bytes && seen <= bytes + bytes / 10 + 65536;
  row.detail = fmt::format("{} of {} bytes counted", seen, bytes);
  if (row.available) row.remedy.clear();
  return row;
}

}  // namespace shardsim

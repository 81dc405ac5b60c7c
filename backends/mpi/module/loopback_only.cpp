#include <cerrno>
#include <cstring>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

// A separate library, preloaded (LD_PRELOAD) into mpirun and the ranks of a run on this machine.
// Open MPI 4.1 listens on all networks, whatever its parameters say. mpirun trusts any daemon that
// connects, and ranks listen for each other. This library moves such sockets to the loopback
// interface.
namespace {

long bind_really(int socket, const void* address, socklen_t length) {
  return syscall(SYS_bind, socket, address, length);
}

bool is_stream(int socket) {
  int type = 0;
  socklen_t length = sizeof(type);
  return getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_STREAM;
}

long bind_loopback6(int socket, sockaddr_in6 address) {
  address.sin6_addr = in6addr_loopback;
  const long result = bind_really(socket, &address, sizeof(address));
  if (result == 0 || errno != EADDRNOTAVAIL) return result;
  // Containers may have IPv6 sockets without this address; then bind to 127.0.0.1, mapped to IPv6.
  const int no = 0;
  if (setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no)) != 0) return -1;
  constexpr unsigned char kMapped[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
  std::memcpy(&address.sin6_addr, kMapped, sizeof(kMapped));
  return bind_really(socket, &address, sizeof(address));
}

}  // namespace

/// Replaces bind() of the C library.
extern "C" __attribute__((visibility("default"))) int bind(int socket, const sockaddr* address,
                                                           socklen_t length) noexcept {
  if (address != nullptr && is_stream(socket)) {
    if (address->sa_family == AF_INET && length >= sizeof(sockaddr_in)) {
      sockaddr_in copy{};
      std::memcpy(&copy, address, sizeof(copy));
      if (copy.sin_addr.s_addr == htonl(INADDR_ANY)) {
        copy.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return static_cast<int>(bind_really(socket, &copy, sizeof(copy)));
      }
    } else if (address->sa_family == AF_INET6 && length >= sizeof(sockaddr_in6)) {
      sockaddr_in6 copy{};
      std::memcpy(&copy, address, sizeof(copy));
      if (IN6_IS_ADDR_UNSPECIFIED(&copy.sin6_addr)) {
        return static_cast<int>(bind_loopback6(socket, copy));
      }
    }
  }
  return static_cast<int>(bind_really(socket, address, length));
}

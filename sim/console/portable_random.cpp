#include <cstdint>

#include <sys/random.h>

// Only in portable builds. Boost.Fiber's spin locks seed a generator from std::random_device, which
// in a C++ runtime built on Debian 12 calls arc4random, of glibc 2.36 and newer. With a definition
// in the program, the linker does not need that one.
extern "C" std::uint32_t arc4random() noexcept {
  std::uint32_t value = 0;
  while (getrandom(&value, sizeof(value), 0) != sizeof(value)) {
  }
  return value;
}

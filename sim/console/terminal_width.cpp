#include "sim/console/terminal_width.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <sys/ioctl.h>
#include <unistd.h>

#include "sim/kernel/text.hpp"

namespace shardsim {

std::size_t terminal_width(int descriptor) {
  constexpr std::size_t kLeast = 40;
  constexpr std::size_t kUnknown = 100;
  constexpr std::size_t kMost = 1000;
  if (isatty(descriptor) == 0) return 0;
  // Read once, before anything runs; it decides how text is laid out, not what a run does.
  const char* const columns = std::getenv("COLUMNS");  // NOLINT(concurrency-mt-unsafe)
  if (columns != nullptr) {
    const auto told = parse_number<std::size_t>(std::string_view(columns));
    if (told && *told > 0) return std::clamp(*told, kLeast, kMost);
  }
  winsize size{};
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg): a call of the system.
  if (ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUnknown;
  return std::clamp<std::size_t>(size.ws_col, kLeast, kMost);
}

}  // namespace shardsim

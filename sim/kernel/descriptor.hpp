#pragma once

#include <unistd.h>

namespace shardsim {

/// Of an open file, closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { static_cast<void>(close()); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  /// Negative: it was not opened, or is closed.
  [[nodiscard]] int number() const { return number_; }
  /// Returns as ::close(), 0 if there is nothing to close. Never repeated: after EINTR Linux has
  /// closed it all the same.
  int close() {
    const int closing = number_;
    number_ = -1;
    return closing < 0 ? 0 : ::close(closing);
  }

 private:
  int number_;
};

}  // namespace shardsim

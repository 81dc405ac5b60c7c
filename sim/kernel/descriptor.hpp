#pragma once

#include <unistd.h>

namespace shardsim {

/// The descriptor of an open file; closes it at the end.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { static_cast<void>(close()); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  /// Negative: the file was not opened, or is closed.
  [[nodiscard]] int number() const { return number_; }
  /// Returns the result of ::close(), 0 if there is nothing to close. Never repeated: after EINTR
  /// Linux has closed the file nevertheless.
  int close() {
    const int closing = number_;
    number_ = -1;
    return closing < 0 ? 0 : ::close(closing);
  }

 private:
  int number_;
};

}  // namespace shardsim

#pragma once

#include <csignal>

// Ctrl-C in a verb that has finished parts to keep.
namespace shardsim {

/// While it lives, the first SIGINT or SIGTERM only asks to stop; a second one does what it did
/// before. One at a time.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  /// Whether a stop was asked for. From any thread.
  [[nodiscard]] bool is_asked() const;

 private:
  struct sigaction interrupt_ {};
  struct sigaction terminate_ {};
};

}  // namespace shardsim

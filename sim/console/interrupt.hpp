#pragma once

#include <csignal>

// Ctrl-C in a verb that has finished parts to keep.
namespace shardsim {

/// While it lives, the first SIGINT or SIGTERM only requests a stop; a second one has its old
/// effect. Only one may live at a time.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  /// Whether a stop was requested. May be called from any thread.
  [[nodiscard]] bool is_asked() const;

 private:
  struct sigaction interrupt_ {};
  struct sigaction terminate_ {};
};

}  // namespace shardsim

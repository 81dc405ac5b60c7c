#include "sim/console/interrupt.hpp"

#include <atomic>

namespace shardsim {

namespace {

// A handler can reach its watch in no other way.
std::atomic<bool> asked = false;
static_assert(std::atomic<bool>::is_always_lock_free);  // Or a handler must not touch it.

void note(int /*signal*/) { asked = true; }

void install(int signal, struct sigaction& before) {
  struct sigaction action {};
  action.sa_handler = note;
  sigemptyset(&action.sa_mask);
  // Once: the next signal has its old effect. Reads and writes are restarted.
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigaction(signal, &action, &before);
}

}  // namespace

InterruptWatch::InterruptWatch() {
  asked = false;
  install(SIGINT, interrupt_);
  install(SIGTERM, terminate_);
}

InterruptWatch::~InterruptWatch() {
  sigaction(SIGINT, &interrupt_, nullptr);
  sigaction(SIGTERM, &terminate_, nullptr);
}

bool InterruptWatch::is_asked() const { return asked; }

}  // namespace shardsim

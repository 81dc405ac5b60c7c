#include <csignal>
#include <memory>

#include "backends/rendezvous/process_launcher.hpp"

// Signals that a process remembers while it has others to end.
namespace shardsim {

namespace {

volatile std::sig_atomic_t interrupts = 0;

void note_interrupt(int) { interrupts = 1; }

}  // namespace

struct InterruptGuard::Previous {
  struct sigaction on_interrupt;
  struct sigaction on_termination;
};

InterruptGuard::InterruptGuard() : previous_(std::make_unique<Previous>()) {
  interrupts = 0;
  struct sigaction noting {};
  noting.sa_handler = note_interrupt;  // Without SA_RESTART: waits end early.
  sigemptyset(&noting.sa_mask);
  sigaction(SIGINT, &noting, &previous_->on_interrupt);
  sigaction(SIGTERM, &noting, &previous_->on_termination);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &previous_->on_interrupt, nullptr);
  sigaction(SIGTERM, &previous_->on_termination, nullptr);
}

bool InterruptGuard::interrupted() { return interrupts != 0; }

}  // namespace shardsim

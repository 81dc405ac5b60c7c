#include "sim/real/waiting.hpp"

#include <poll.h>
#include <sched.h>

#include "backends/rendezvous/monotonic_clock.hpp"

namespace shardsim {

double seconds_of_waiting() { return monotonic_seconds(); }

void sleep_at_most(double seconds) { ::poll(nullptr, 0, static_cast<int>(1000.0 * seconds)); }

void let_others_run() { sched_yield(); }

}  // namespace shardsim

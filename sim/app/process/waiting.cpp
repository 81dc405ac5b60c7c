#include "sim/app/process/waiting.hpp"

#include <sched.h>

#include "backends/rendezvous/monotonic_clock.hpp"

namespace shardsim {

double seconds_of_waiting() { return monotonic_seconds(); }

void let_others_run() { sched_yield(); }

}  // namespace shardsim

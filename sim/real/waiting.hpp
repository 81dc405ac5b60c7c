#pragma once

namespace shardsim {

/// Seconds from any start, never going back: for deadlines of real processes.
[[nodiscard]] double seconds_of_waiting();

/// Sleeps at most this long; a signal may end it early.
void sleep_at_most(double seconds);

/// Gives the processor to other processes of this machine.
void let_others_run();

}  // namespace shardsim

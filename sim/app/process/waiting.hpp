#pragma once

namespace shardsim {

/// Seconds from any start, never going back: for deadlines of real processes.
[[nodiscard]] double seconds_of_waiting();

/// Gives the processor to other processes of this machine.
void let_others_run();

}  // namespace shardsim

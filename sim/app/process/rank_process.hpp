#pragma once

#include "sim/app/process/meeting_point.hpp"
#include "sim/app/process/open_backend.hpp"
#include "sim/app/process/process_options.hpp"

namespace shardsim {

/// What one rank of a real run works with, between the rendezvous' first and last word. All throw
/// the reason if the run is given up meanwhile.
class RankSeat {
 public:
  virtual ~RankSeat() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual OpenBackend& open() = 0;
  /// Leaves a value at the rendezvous, where who serves finds it.
  virtual void set(const std::string& key, const std::string& value) = 0;
  /// Returns when all ranks are here; others may compute for long before.
  virtual void meet(const std::string& name) = 0;
};

/// What a rank does. Closes the backend when nothing has failed.
using RankWork = std::function<void(RankSeat&)>;

/// The work of one rank of a real run: meets the others at the rendezvous, opens the backend, does
/// `work`, and ends. Rank 0 leaves "library" and "notes" of the backend, lines, at the rendezvous.
/// Prints nothing: what goes wrong, here or elsewhere, is known to who serves.
/// Returns the exit code. Throws Error if it does not get as far as the rendezvous. `last_resort`:
/// see RendezvousClientOptions.
[[nodiscard]] ExitCode run_rank_process(const BackendSetting& setting, const RankWork& work,
                                        const ProcessOptions& options, const MeetingPoint& meeting,
                                        std::function<void()> last_resort = {});

}  // namespace shardsim

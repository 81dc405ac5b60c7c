#pragma once

#include "sim/real/meeting_point.hpp"
#include "sim/real/open_backend.hpp"
#include "sim/real/process_options.hpp"

namespace shardsim {

/// The interface of one rank's work in a real run, between the rendezvous' first and last word. All
/// functions throw the reason if the run is given up meanwhile.
class RankSeat {
 public:
  virtual ~RankSeat() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual OpenBackend& open() = 0;
  /// Leaves a value at the rendezvous, where the serving process finds it.
  virtual void set(const std::string& key, const std::string& value) = 0;
  /// Returns when all ranks are here; others may compute for long before.
  virtual void meet(const std::string& name) = 0;
};

/// The work of a rank. It closes the backend if nothing has failed.
using RankWork = std::function<void(RankSeat&)>;

/// The process of one rank of a real run: meets the others at the rendezvous, opens the backend,
/// does `work`, and ends. Rank 0 leaves "library" and "notes" of the backend, lines, at the
/// rendezvous. It prints nothing: the serving process knows every failure, here or elsewhere.
/// Returns the exit code. Throws Error if it does not reach the rendezvous. `last_resort`: see
/// RendezvousClientOptions.
[[nodiscard]] ExitCode run_rank_process(const BackendSetting& setting, const RankWork& work,
                                        const ProcessOptions& options, const MeetingPoint& meeting,
                                        std::function<void()> last_resort = {});

}  // namespace shardsim

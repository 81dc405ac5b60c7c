#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/hardware/cluster.hpp"
#include "sim/hardware/collective.hpp"

#include "backends/process_backend.hpp"

#include "sim/app/process/meeting_point.hpp"
#include "sim/app/process/process_options.hpp"
#include "sim/app/process/rank_report.hpp"

namespace shardsim {

class CallWatch;

/// A backend that is up on this process, and what it can say besides.
class OpenBackend {
 public:
  virtual ~OpenBackend() = default;
  [[nodiscard]] virtual ProcessBackend& backend() = 0;
  /// Which MPI or NCCL, one line.
  [[nodiscard]] virtual std::string library() const = 0;
  /// What a reader of the result must know of how it ran; one sentence each.
  [[nodiscard]] virtual std::vector<std::string> notes() const { return {}; }
  /// Whether ranks take turns on one device: then times mean nothing.
  [[nodiscard]] virtual bool shares_devices() const { return false; }
  /// Ends it, for which all ranks wait; nothing may be asked of it afterwards. Says what the
  /// library has sent for this process all along, if it counts.
  virtual std::optional<SentTotals> close() = 0;
  /// Something has failed: do not wait for other ranks while closing.
  virtual void give_up() = 0;
};

/// Keys and values that all ranks of a run share: set once, read when it is there.
struct SharedKeys {
  std::function<void(const std::string& key, const std::string& value)> set;
  std::function<std::string(const std::string& key)> get;
};

/// What a backend has to know of the run: it chooses between algorithms as the simulation of
/// `cluster` does.
struct BackendSetting {
  Cluster cluster;
  Algorithm all_reduce_algorithm = Algorithm::automatic;
  bool buffered_sends = false;

  [[nodiscard]] int ranks() const { return cluster.num_ranks(); }
};

/// Throws Error (exit 5), one sentence of cause and the remedy, if what the backend needs is not on
/// this machine. To be asked before any rank is started.
void require_backend(const ProcessOptions& options);

/// What must be done in a rank's process before it has a second thread: variables that libraries
/// read. Throws as require_backend.
void prepare_backend(const ProcessOptions& options, const MeetingPoint& place);

/// Starts this process's end. `watch` outlives it. Throws Error (exit 5).
[[nodiscard]] std::unique_ptr<OpenBackend> open_backend(const ProcessOptions& options,
                                                        const BackendSetting& setting,
                                                        const MeetingPoint& place,
                                                        const SharedKeys& keys, CallWatch& watch);

}  // namespace shardsim

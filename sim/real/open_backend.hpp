#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/hardware/cluster.hpp"
#include "sim/hardware/collective.hpp"

#include "backends/process_backend.hpp"
#include "backends/rendezvous/meeting_point.hpp"

#include "sim/real/process_options.hpp"
#include "sim/real/rank_report.hpp"

namespace shardsim {

class CallWatch;

/// A backend that is up on this process, and its further facts.
class OpenBackend {
 public:
  virtual ~OpenBackend() = default;
  [[nodiscard]] virtual ProcessBackend& backend() = 0;
  /// The MPI or NCCL in use, one line.
  [[nodiscard]] virtual std::string library() const = 0;
  /// Remarks on the run for the reader of the result; one sentence each.
  [[nodiscard]] virtual std::vector<std::string> notes() const { return {}; }
  /// Whether ranks take turns on one device: then times mean nothing.
  [[nodiscard]] virtual bool shares_devices() const { return false; }
  /// Closes the backend, for which all ranks wait; it must not be used afterwards. Returns the
  /// totals that the library has sent for this process, if it counts them.
  virtual std::optional<SentTotals> close() = 0;
  /// Something has failed: do not wait for other ranks while closing.
  virtual void give_up() = 0;
};

/// Keys and values that all ranks of a run share: set once, read when they are there.
struct SharedKeys {
  std::function<void(const std::string& key, const std::string& value)> set;
  std::function<std::string(const std::string& key)> get;
};

/// The run's setting for a backend: it chooses between algorithms as the simulation of `cluster`
/// does.
struct BackendSetting {
  Cluster cluster;
  Algorithm all_reduce_algorithm = Algorithm::automatic;
  bool buffered_sends = false;

  [[nodiscard]] int ranks() const { return cluster.num_ranks(); }
};

/// Throws Error (exit 5), one sentence of cause and the remedy, if this machine lacks a part that
/// the backend needs. Must be called before any rank is started.
void require_backend(const ProcessOptions& options);

/// Sets the variables that libraries read, before a rank's process has a second thread. Throws as
/// require_backend.
void prepare_backend(const ProcessOptions& options, const MeetingPoint& place);

/// Starts this process's end. `watch` outlives it. Throws Error (exit 5).
[[nodiscard]] std::unique_ptr<OpenBackend> open_backend(const ProcessOptions& options,
                                                        const BackendSetting& setting,
                                                        const MeetingPoint& place,
                                                        const SharedKeys& keys, CallWatch& watch);

/// The library that mpirun preloads, so that no other machine can reach a run on this one
/// (loopback_library_of); "" with a note on `err` if it is not installed.
[[nodiscard]] std::string mpi_preload(std::ostream& err);

}  // namespace shardsim

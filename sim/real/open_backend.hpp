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
#include "backends/rendezvous/launch_environment.hpp"

#include "sim/real/process_options.hpp"
#include "sim/real/rank_report.hpp"

namespace shardsim {

class CallWatch;

/// The place where a rank that a launcher has started meets the others.
struct MeetingPoint {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;  ///< Among the ranks of this machine; as `rank` if unknown.
  int local_size = 1;
  std::string host;
  int port = 0;
  std::string token;
  /// The process of the shardsim that started the ranks and serves. 0: rank 0 serves.
  int launcher = 0;
};

/// From the launcher's variables, and SHARDSIM_TOKEN or SHARDSIM_TOKEN_FILE. If Open MPI has
/// started all ranks on one machine, no variable is needed: place and token follow from the secret
/// that it gives the processes of a job. Throws Error (exit 5) if a variable is missing.
[[nodiscard]] MeetingPoint meeting_point_of(const LaunchedRank& launched,
                                            const EnvironmentLookup& lookup = lookup_environment);

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

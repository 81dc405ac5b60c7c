#pragma once

#include <string>
#include <vector>

namespace shardsim {

/// The command line's options for a run on real processes.
struct ProcessOptions {
  std::string backend = "fiber";    ///< "mpi" or "nccl"; "fiber": none of this applies.
  bool native_collectives = false;  ///< MPI's own, instead of ours made of messages.
  bool check_fingerprints = false;  ///< Calls are compared over the rendezvous before they hang.
  /// Seconds after which a rank that shows no life, or a call in which nothing moves, ends the run.
  double timeout_s = 60.0;
  std::string nccl_library;        ///< Path; empty: looked for.
  std::vector<std::string> words;  ///< The command line itself, with which ranks are started.

  [[nodiscard]] bool on_processes() const { return backend != "fiber"; }
};

/// Whether sums are formed in an order that the simulation can reproduce: then every bit must be
/// the same.
[[nodiscard]] inline bool same_order(const ProcessOptions& options) {
  return options.backend == "mpi" && !options.native_collectives;
}

}  // namespace shardsim

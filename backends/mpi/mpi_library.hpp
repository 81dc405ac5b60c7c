#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/mpi/module_table.hpp"
#include "backends/probe.hpp"

namespace shardsim {

/// The path of the module: SHARDSIM_MPI_MODULE if that is set, else the module of this program.
[[nodiscard]] std::vector<std::string> mpi_module_paths();

/// The path of a program's module: the build's in a build folder (sim/kernel/build_tree.hpp), else
/// the installation's. No other place is searched, because the module is code that is run.
[[nodiscard]] std::vector<std::string> mpi_module_paths_of(const std::string& executable);

struct MpiModule {
  std::string path;  ///< Empty: there is none.
  std::string why;   ///< Attempts, and the loader's answers.
  const ShardsimMpiTable* table = nullptr;
};

/// The library that keeps Open MPI's sockets on the loopback interface (loopback_only.cpp). It lies
/// beside the module; "" if it is missing or its name cannot stand in LD_PRELOAD. Builds with
/// sanitizers have none.
[[nodiscard]] std::string loopback_library_of(const std::string& module);

/// Opens the module, and with it the MPI library; starts nothing. Never fails: says why not.
[[nodiscard]] MpiModule find_mpi_module();

/// The same as a row of `shardsim doctor`.
[[nodiscard]] ProbeRow probe_mpi_module();

/// The same, or Error (E1060, backend_failed).
[[nodiscard]] MpiModule require_mpi_module();

/// This process's end of an MPI job. One at a time, once per process: MPI cannot start again.
class MpiJob {
 public:
  struct Options {
    bool monitor = false;  ///< Counts what is sent.
    std::int64_t piece_bytes = std::int64_t{1} << 30;
  };
  /// Throws Error (E1060, backend_failed) without the module or where MPI does not start.
  explicit MpiJob(const Options& options);
  /// Closes, unless something has failed here.
  ~MpiJob();
  MpiJob(const MpiJob&) = delete;
  MpiJob& operator=(const MpiJob&) = delete;

  [[nodiscard]] const ShardsimMpiTable& table() const { return *module_.table; }
  [[nodiscard]] std::string library() const { return table().library(); }
  /// Bytes and messages sent, as MPI counts them, by receiver; empty: it does not.
  struct Wire {
    std::vector<std::int64_t> bytes;
    std::vector<std::int64_t> messages;
  };
  /// Ends MPI, for which all processes of the job wait; nothing may be asked of it afterwards. Says
  /// what was sent all along.
  Wire close();
  /// From here on the destructor does not wait for others.
  void give_up() { given_up_ = true; }

 private:
  MpiModule module_;
  bool given_up_ = false;
  bool closed_ = false;
};

}  // namespace shardsim

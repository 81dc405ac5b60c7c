#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/message/transport.hpp"
#include "backends/mpi/module_table.hpp"
#include "backends/probe.hpp"

namespace shardsim {

/// The path of a program's module: the build's in a build folder (sim/kernel/version.hpp), else
/// the installation's. No other place is searched, because the module is code that is run. Empty if
/// the program is not known.
[[nodiscard]] std::string mpi_module_path_of(const std::string& executable);

struct MpiModule {
  std::string path;  ///< Empty: there is none.
  std::string why;   ///< The attempt, and the loader's answer.
  const ShardsimMpiTable* table = nullptr;
};

/// The library that keeps Open MPI's sockets on the loopback interface (loopback_only.cpp). It lies
/// beside the module; "" if it is missing or its name cannot stand in LD_PRELOAD. Builds with
/// sanitizers have none.
[[nodiscard]] std::string loopback_library_of(const std::string& module);

/// Opens the module that SHARDSIM_MPI_MODULE names, else that of this program, and with it the MPI
/// library; starts nothing. Never fails: says why not.
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

/// Messages between the processes of an MPI job, which outlives it.
class MpiTransport final : public Transport {
 public:
  /// All processes.
  explicit MpiTransport(const MpiJob& job) : MpiTransport(job, 0) {}
  ~MpiTransport() override;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return static_cast<int>(world_ranks_.size()); }
  [[nodiscard]] const std::vector<int>& world_ranks() const override { return world_ranks_; }

  Request send(int peer, const std::byte* data, std::int64_t bytes, bool rendezvous) override;
  Request receive(int peer, std::byte* data, std::int64_t bytes) override;
  [[nodiscard]] bool has_tags() const override { return true; }
  Request send_tagged(int peer, int tag, const std::byte* data, std::int64_t bytes,
                      bool rendezvous) override;
  Request receive_tagged(int source, int tag, std::byte* data, std::int64_t bytes) override;
  [[nodiscard]] std::optional<TakenMessage> probe_tagged(int source, int tag) override;
  [[nodiscard]] TakenMessage taken() const override;
  Request barrier() override;
  [[nodiscard]] bool has_collectives() const override { return true; }
  Request collective(const NativeCall& call) override;
  [[nodiscard]] bool done(Request request) override;
  [[nodiscard]] std::unique_ptr<Transport> split(int color, int key) override;

 private:
  MpiTransport(const MpiJob& job, std::int32_t group);
  // Throws what the module reports.
  void check(std::int32_t status) const;

  const MpiJob& job_;
  std::int32_t group_;
  int rank_;
  std::vector<int> world_ranks_;
};

}  // namespace shardsim

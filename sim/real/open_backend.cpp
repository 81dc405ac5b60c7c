#include "sim/real/open_backend.hpp"

#include <numeric>
#include <ostream>

#include <fmt/format.h>
#include <sched.h>

#include "sim/kernel/error.hpp"
#include "sim/kernel/hash.hpp"
#include "sim/kernel/version.hpp"

#include "backends/message/message_rank.hpp"
#include "backends/mpi/mpi_library.hpp"
#include "backends/nccl/nccl_backend.hpp"
#include "backends/nccl/nccl_library.hpp"
#include "backends/nccl/nccl_probe.hpp"
#include "backends/nccl/profiler_plugin.hpp"
#include "backends/rendezvous/monotonic_clock.hpp"

namespace shardsim {

namespace {

WaitOptions wait_options_of(const ProcessOptions& options, CallWatch& watch) {
  return {.deadline_s = options.timeout_s,
          .clock = monotonic_seconds,
          .idle = [] { sched_yield(); },
          .watch = &watch};
}

// --- MPI ---------------------------------------------------------------------------------------

MessageOptions message_options_of(const ProcessOptions& options, const BackendSetting& setting,
                                  CallWatch& watch) {
  return {wait_options_of(options, watch), setting.cluster, setting.all_reduce_algorithm,
          setting.buffered_sends, options.native_collectives};
}

class OpenMpi final : public OpenBackend {
 public:
  OpenMpi(const ProcessOptions& options, const BackendSetting& setting, CallWatch& watch)
      : job_({.monitor = true}),
        rank_(std::in_place, std::make_unique<MpiTransport>(job_),
              message_options_of(options, setting, watch)),
        monitored_(!options.native_collectives) {}

  /// Throws Error E1077 if the launcher and MPI disagree about who this process is.
  void require_place(const MeetingPoint& place) const {
    const int rank = job_.table().rank(0);
    const int size = job_.table().size(0);
    if (rank == place.rank && size == place.world_size) return;
    throw Error(ExitCode::backend_failed, "E1077",
                fmt::format("to MPI this process is rank {} of {}, to its launcher rank {} of {}",
                            rank, size, place.rank, place.world_size),
                "start ranks by the mpirun of this MPI, or by srun --mpi=pmix");
  }
  [[nodiscard]] ProcessBackend& backend() override { return *rank_; }
  [[nodiscard]] std::string library() const override { return job_.library(); }
  std::optional<SentTotals> close() override {
    rank_.reset();
    const MpiJob::Wire wire = job_.close();
    // Collectives of the library are not our messages.
    if (!monitored_ || wire.bytes.empty()) return std::nullopt;
    return SentTotals{std::accumulate(wire.bytes.begin(), wire.bytes.end(), std::int64_t{0}),
                      std::accumulate(wire.messages.begin(), wire.messages.end(), std::int64_t{0})};
  }
  void give_up() override { job_.give_up(); }

 private:
  MpiJob job_;
  std::optional<MessageRank> rank_;
  bool monitored_;
};

// --- NCCL --------------------------------------------------------------------------------------

NcclSetting setting_of(const MeetingPoint& place, int num_gpus) {
  // Equal on all ranks of a run, and different for every other run on this machine.
  const std::uint64_t job =
      hash_text(place.host + place.token, static_cast<std::uint64_t>(place.port));
  return {.num_ranks = place.local_size,
          .num_visible_gpus = num_gpus,
          .rank = place.rank,
          .job = fmt::format("shardsim-{:016x}", job),
          .exact_volume = true};
}

class OpenNccl final : public OpenBackend {
 public:
  OpenNccl(const ProcessOptions& options, const MeetingPoint& place, const SharedKeys& keys,
           CallWatch& watch)
      : probe_(probe_nccl(options.nccl_library)) {
    probe_.require_all();
    shares_gpus_ = shares_gpus(setting_of(place, probe_.num_gpus));
    NcclOptions nccl{wait_options_of(options, watch)};
    nccl.rank = place.rank;
    nccl.num_ranks = place.world_size;
    nccl.device = device_of(place.local_rank, probe_.num_gpus);
    nccl.put = keys.set;
    nccl.get = keys.get;
    backend_.emplace(probe_.cuda, probe_.nccl, std::move(nccl));
    // The world is formed, and no operation has been called on it yet: only the run should count.
    reset_profiled_bytes();
  }

  [[nodiscard]] ProcessBackend& backend() override { return *backend_; }
  [[nodiscard]] std::string library() const override {
    return fmt::format("NCCL {}, {} GPUs", nccl_version_text(probe_.nccl->version()),
                       probe_.num_gpus);
  }
  [[nodiscard]] std::vector<std::string> notes() const override {
    std::vector<std::string> notes;
    if (shares_gpus_) {
      notes.push_back(fmt::format(
          "there are more ranks than GPUs ({}): each process is a machine of its own to NCCL "
          "(NCCL_HOSTID), and messages go through sockets of the loopback interface",
          probe_.num_gpus));
    }
    std::string variables;
    for (const auto& [name, value] : nccl_variables_in_force()) {
      variables += fmt::format("{}{}={}", variables.empty() ? "" : " ", name, value);
    }
    notes.push_back("NCCL ran with " + variables);
    return notes;
  }
  [[nodiscard]] bool shares_devices() const override { return shares_gpus_; }
  std::optional<SentTotals> close() override {
    backend_.reset();
    // Between GPUs of one machine there is no network traffic to count.
    if (!profiler_in_use() || !shares_gpus_) return std::nullopt;
    SentTotals sent;
    for (const auto& [function, bytes] : profiled_bytes()) {
      sent.bytes += bytes.wire_bytes;
      sent.messages += bytes.wire_messages;
    }
    return sent;
  }
  void give_up() override {}

 private:
  NcclProbe probe_;
  bool shares_gpus_ = false;
  std::optional<NcclBackend> backend_;
};

}  // namespace

void require_backend(const ProcessOptions& options) {
  if (options.backend == "nccl") return probe_nccl(options.nccl_library).require_all();
  // If it is found here, the ranks will find it: they are this program.
  static_cast<void>(require_mpi_module());
}

void prepare_backend(const ProcessOptions& options, const MeetingPoint& place) {
  if (options.backend != "nccl") return;
  const NcclProbe probe = probe_nccl(options.nccl_library);
  probe.require_all();
  set_environment(nccl_environment(setting_of(place, probe.num_gpus), nccl_variables_in_force()));
}

std::unique_ptr<OpenBackend> open_backend(const ProcessOptions& options,
                                          const BackendSetting& setting, const MeetingPoint& place,
                                          const SharedKeys& keys, CallWatch& watch) {
  if (options.backend == "nccl") return std::make_unique<OpenNccl>(options, place, keys, watch);
  auto open = std::make_unique<OpenMpi>(options, setting, watch);
  open->require_place(place);
  return open;
}

std::string mpi_preload(std::ostream& err) {
  const std::string library = loopback_library_of(require_mpi_module().path);
  // Builds with sanitizers run only on the machine that built them.
  if (library.empty() && !build_root_of(this_executable())) {
    err << "note: libshardsim-loopback.so is not beside the MPI module, so Open MPI listens on all "
           "networks of this machine\n";
  }
  return library;
}

}  // namespace shardsim

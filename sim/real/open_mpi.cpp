#include "sim/real/open_mpi.hpp"

#include <numeric>
#include <ostream>

#include <fmt/format.h>

#include "sim/kernel/build_tree.hpp"

#include "backends/message/message_rank.hpp"
#include "backends/mpi/mpi_transport.hpp"

#include "sim/real/waiting.hpp"

namespace shardsim {

namespace {

MessageOptions message_options_of(const ProcessOptions& options, const BackendSetting& setting,
                                  CallWatch& watch) {
  MessageOptions message;
  message.cluster = setting.cluster;
  message.all_reduce_algorithm = setting.all_reduce_algorithm;
  message.buffered_sends = setting.buffered_sends;
  message.deadline_s = options.timeout_s;
  message.clock = seconds_of_waiting;
  message.idle = let_others_run;
  message.native_collectives = options.native_collectives;
  message.watch = &watch;
  return message;
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

}  // namespace

void require_mpi() {
  // If it is found here, the ranks will find it: they are this program.
  static_cast<void>(require_mpi_module());
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

std::unique_ptr<OpenBackend> open_mpi(const ProcessOptions& options, const BackendSetting& setting,
                                      const MeetingPoint& place, CallWatch& watch) {
  auto open = std::make_unique<OpenMpi>(options, setting, watch);
  open->require_place(place);
  return open;
}

}  // namespace shardsim

#include "sim/real/open_nccl.hpp"

#include <fmt/format.h>

#include "sim/kernel/hash.hpp"

#include "backends/nccl/nccl_backend.hpp"
#include "backends/nccl/nccl_environment.hpp"
#include "backends/nccl/nccl_probe.hpp"
#include "backends/nccl/profiler_plugin.hpp"

#include "sim/real/waiting.hpp"

namespace shardsim {

namespace {

NcclSetting setting_of(const MeetingPoint& place, int num_gpus) {
  NcclSetting setting;
  setting.num_ranks = place.local_size;
  setting.num_visible_gpus = num_gpus;
  setting.rank = place.rank;
  // Equal on all ranks of a run, and different for every other run on this machine.
  setting.job = fmt::format("shardsim-{:016x}", hash_text(place.host + place.token,
                                                          static_cast<std::uint64_t>(place.port)));
  setting.exact_volume = true;
  return setting;
}

class OpenNccl final : public OpenBackend {
 public:
  OpenNccl(const ProcessOptions& options, const MeetingPoint& place, const SharedKeys& keys,
           CallWatch& watch)
      : probe_(probe_nccl(options.nccl_library)) {
    probe_.require_all();
    shares_gpus_ = shares_gpus(setting_of(place, probe_.num_gpus));
    NcclOptions nccl;
    nccl.rank = place.rank;
    nccl.num_ranks = place.world_size;
    nccl.device = device_of(place.local_rank, probe_.num_gpus);
    nccl.deadline_s = options.timeout_s;
    nccl.clock = seconds_of_waiting;
    nccl.idle = let_others_run;
    nccl.watch = &watch;
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

void require_nccl(const ProcessOptions& options) { probe_nccl(options.nccl_library).require_all(); }

void prepare_nccl(const ProcessOptions& options, const MeetingPoint& place) {
  const NcclProbe probe = probe_nccl(options.nccl_library);
  probe.require_all();
  set_environment(nccl_environment(setting_of(place, probe.num_gpus), nccl_variables_in_force()));
}

std::unique_ptr<OpenBackend> open_nccl(const ProcessOptions& options, const MeetingPoint& place,
                                       const SharedKeys& keys, CallWatch& watch) {
  return std::make_unique<OpenNccl>(options, place, keys, watch);
}

}  // namespace shardsim

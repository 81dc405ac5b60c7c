#include "sim/app/process/rank_process.hpp"

#include <exception>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/loopback_counter.hpp"
#include "backends/rendezvous/process_launcher.hpp"
#include "backends/rendezvous/process_watch.hpp"

#include "sim/app/process/measure_rank.hpp"
#include "sim/app/process/open_backend.hpp"

namespace shardsim {

namespace {

RendezvousClientOptions client_options_of(const ProcessOptions& options,
                                          const MeetingPoint& meeting,
                                          const FlightRecorder& recorder) {
  RendezvousClientOptions client;
  client.host = meeting.host;
  client.port = meeting.port;
  client.token = meeting.token;
  client.rank = meeting.rank;
  client.world_size = meeting.world_size;
  client.connect_timeout_s = options.timeout_s;
  client.deadline_s = options.timeout_s;
  client.recorder = &recorder;
  return client;
}

// The training and what hangs on it, between the rendezvous' first and last word.
class RankProcess {
 public:
  RankProcess(const Scenario& scenario, const ParallelPlan& plan, const RunHooks& hooks,
              const ProcessOptions& options, const MeetingPoint& place, RendezvousClient& client,
              ProcessWatch& watch)
      : scenario_(scenario),
        plan_(plan),
        hooks_(hooks),
        options_(options),
        place_(place),
        client_(client),
        watch_(watch) {}

  void run() {
    const int rank = place_.rank;
    const SharedKeys keys{
        [this](const std::string& key, const std::string& value) { client_.set(key, value); },
        [this](const std::string& key) { return client_.get(key, options_.timeout_s); }};
    const std::unique_ptr<OpenBackend> open =
        open_backend(options_, scenario_, place_, keys, watch_);
    try {
      RankReport report = measure(*open);
      if (rank == 0) {
        client_.set("library", open->library());
        client_.set("notes", fmt::format("{}", fmt::join(open->notes(), "\n")));
      }
      report.wire = open->close();
      client_.set(report_key(rank), to_text(report));
    } catch (...) {
      open->give_up();  // Closing must not wait for ranks that will not come.
      throw;
    }
  }

 private:
  RankReport measure(OpenBackend& open) {
    RankSetting setting{
        &scenario_,           &plan_, hooks_.wrap_world, {}, options_.backend == "nccl",
        !same_order(options_)};
    std::optional<std::int64_t> loopback_before;
    std::optional<std::int64_t> loopback_after;
    int meeting = 0;
    setting.meet = [&] {
      const bool begins = meeting == 0;
      client_.barrier("training " + std::to_string(meeting++), kMeetTimeout);
      (begins ? loopback_before : loopback_after) = read_loopback_bytes();
    };
    RankReport report = measure_rank(setting, open.backend());
    if (loopback_before && loopback_after) {
      report.loopback_bytes = *loopback_after - *loopback_before;
    }
    return report;
  }

  // Others may compute for long; those that hang or die are noticed in other ways.
  static constexpr double kMeetTimeout = 86400.0;

  const Scenario& scenario_;
  const ParallelPlan& plan_;
  const RunHooks& hooks_;
  const ProcessOptions& options_;
  const MeetingPoint& place_;
  RendezvousClient& client_;
  ProcessWatch& watch_;
};

}  // namespace

std::string report_key(int rank) { return "report " + std::to_string(rank); }

ExitCode run_rank_process(const Scenario& scenario, const ParallelPlan& plan, const RunHooks& hooks,
                          const ProcessOptions& options, const MeetingPoint& meeting,
                          std::function<void()> last_resort) {
  prepare_backend(options, meeting);
  FlightRecorder recorder;
  RendezvousClientOptions client_options = client_options_of(options, meeting, recorder);
  if (last_resort) client_options.last_resort = std::move(last_resort);
  RendezvousClient client(std::move(client_options));
  ProcessWatch watch(client, recorder, options.check_fingerprints);
  try {
    RankProcess(scenario, plan, hooks, options, meeting, client, watch).run();
    client.end();
    return ExitCode::ok;
  } catch (const Error& error) {
    if (!client.given_up()) client.report(RunFailure::from(error));
    return error.exit_code();
  } catch (const std::exception& error) {
    const Error failure(ExitCode::internal, "E7000", error.what(),
                        "this is a bug of shardsim; please report it with the scenario");
    if (!client.given_up()) client.report(RunFailure::from(failure));
    return failure.exit_code();
  }
}

}  // namespace shardsim

#include "sim/real/rank_process.hpp"

#include <exception>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/kernel/error.hpp"

#include "backends/rendezvous/process_watch.hpp"

#include "sim/real/waiting.hpp"

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

class OpenSeat final : public RankSeat {
 public:
  OpenSeat(int rank, RendezvousClient& client, OpenBackend& open)
      : rank_(rank), client_(client), open_(open) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] OpenBackend& open() override { return open_; }
  void set(const std::string& key, const std::string& value) override { client_.set(key, value); }
  void meet(const std::string& name) override { client_.barrier(name, kMeetTimeout); }

 private:
  // Others may compute for long; ranks that hang or die are noticed in other ways.
  static constexpr double kMeetTimeout = 86400.0;

  int rank_;
  RendezvousClient& client_;
  OpenBackend& open_;
};

void do_work(const BackendSetting& setting, const RankWork& work, const ProcessOptions& options,
             const MeetingPoint& place, RendezvousClient& client, CallWatch& watch) {
  const SharedKeys keys{
      [&](const std::string& key, const std::string& value) { client.set(key, value); },
      [&](const std::string& key) { return client.get(key, options.timeout_s); }};
  const std::unique_ptr<OpenBackend> open = open_backend(options, setting, place, keys, watch);
  try {
    if (place.rank == 0) {
      client.set("library", open->library());
      client.set("notes", fmt::format("{}", fmt::join(open->notes(), "\n")));
    }
    OpenSeat seat(place.rank, client, *open);
    work(seat);
  } catch (...) {
    open->give_up();  // Closing must not wait for ranks that will not come.
    throw;
  }
}

// Reports the cause, and returns the exit code of the run's verdict.
ExitCode give_up(RendezvousClient& client, const MeetingPoint& place, const Error& error) {
  if (!client.given_up()) client.report(RunFailure::from(error));
  // A foreign launcher ends its whole job with the first process that fails. This process waits
  // until rank 0 has reported the verdict; then the launcher ends this one, too.
  constexpr double kForRank0 = 10.0;
  if (!place.served_by_launcher && place.rank != 0) sleep_at_most(kForRank0);
  const std::optional<RunFailure> reason = client.reason();
  return reason ? reason->exit_code : error.exit_code();
}

}  // namespace

ExitCode run_rank_process(const BackendSetting& setting, const RankWork& work,
                          const ProcessOptions& options, const MeetingPoint& meeting,
                          std::function<void()> last_resort) {
  prepare_backend(options, meeting);
  FlightRecorder recorder;
  RendezvousClientOptions client_options = client_options_of(options, meeting, recorder);
  if (last_resort) client_options.last_resort = std::move(last_resort);
  RendezvousClient client(std::move(client_options));
  ProcessWatch watch(client, recorder, options.check_fingerprints);
  try {
    do_work(setting, work, options, meeting, client, watch);
    client.end();
    return ExitCode::ok;
  } catch (const Error& error) {
    return give_up(client, meeting, error);
  } catch (const std::exception& error) {
    return give_up(client, meeting,
                   Error(ExitCode::internal, "E7000", error.what(),
                         "this is a bug of shardsim; please report it with the scenario"));
  }
}

}  // namespace shardsim

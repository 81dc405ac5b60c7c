#include "backends/rendezvous/meeting_point.hpp"

#include <optional>

#include <poll.h>

#include "sim/kernel/hash.hpp"
#include "sim/kernel/text.hpp"

#include "backends/rendezvous/rendezvous_client.hpp"

namespace shardsim {

namespace {

// Random, the same for all processes of a job, and in no other environment.
constexpr const char* kJobSecret = "OMPI_MCA_orte_precondition_transports";

// Below the range of systems' ports for outgoing connections.
constexpr int kFirstPort = 20000;
constexpr int kNumPorts = 10000;

bool on_one_machine(const LaunchedRank& launched) {
  return launched.local_size && *launched.local_size == launched.world_size;
}

}  // namespace

MeetingPoint meeting_point_of(const LaunchedRank& launched, const EnvironmentLookup& lookup) {
  MeetingPoint meeting;
  meeting.rank = launched.rank;
  meeting.world_size = launched.world_size;
  meeting.local_rank = launched.local_rank.value_or(launched.rank);
  meeting.local_size = launched.local_size.value_or(launched.world_size);
  meeting.token = find_token(lookup).value_or("");
  const std::string launcher = lookup("SHARDSIM_LAUNCHED").value_or("");
  meeting.launcher = parse_number<int>(launcher).value_or(0);
  if (launched.master_address && launched.master_port) {
    meeting.host = *launched.master_address;
    meeting.port = *launched.master_port;
  } else if (const auto secret = lookup(kJobSecret); secret && on_one_machine(launched)) {
    meeting.host = "127.0.0.1";
    meeting.port = kFirstPort + static_cast<int>(hash_text(*secret) % kNumPorts);
    if (meeting.token.empty()) meeting.token = *secret;
  } else {
    throw Error(ExitCode::backend_failed, "E1072",
                "the launcher (" + launched.source + ") does not say where the ranks meet",
                "set SHARDSIM_RENDEZVOUS=HOST:PORT for all ranks; rank 0 listens there");
  }
  if (meeting.token.empty()) {
    throw Error(ExitCode::backend_failed, "E1076",
                "no secret is given by which ranks recognize each other",
                "set SHARDSIM_TOKEN_FILE to a file that only you can read, with 16 or more random "
                "characters, the same for all ranks");
  }
  return meeting;
}

ExitCode give_up_run(RendezvousClient& client, const MeetingPoint& place, const Error& error) {
  if (!client.given_up()) client.report(RunFailure::from(error));
  // A foreign launcher ends its whole job with the first process that fails. This process waits
  // until rank 0 has reported the verdict; then the launcher ends this one, too.
  constexpr int kForRank0 = 10'000;  // Milliseconds.
  if (place.launcher == 0 && place.rank != 0) ::poll(nullptr, 0, kForRank0);
  const std::optional<RunFailure> reason = client.reason();
  return reason ? reason->exit_code : error.exit_code();
}

}  // namespace shardsim

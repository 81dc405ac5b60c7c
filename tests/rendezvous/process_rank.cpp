#include <csignal>
#include <cstdlib>
#include <string>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "backends/rendezvous/launch_environment.hpp"
#include "backends/rendezvous/process_launcher.hpp"
#include "backends/rendezvous/rendezvous_client.hpp"

#include "tests/rendezvous/patience.hpp"

// A rank that supervision_test.cpp starts. It is this very program with the one test case below,
// and with the rank's part in the environment.
namespace shardsim {
namespace {

constexpr double kForever = 3600.0;

double number_in(const char* name) { return std::stod(lookup_environment(name).value()); }

// As a backend tells of an all_reduce of this many elements that does not end.
class Rank {
 public:
  Rank(RendezvousClient& client, const LaunchedRank& launched)
      : client_(client), rank_(launched.rank), watch_(client, recorder(), true) {
    for (int rank = 0; rank < launched.world_size; ++rank) members_.push_back(rank);
  }

  static FlightRecorder& recorder() {
    static FlightRecorder recorder;
    return recorder;
  }

  void call(std::int64_t count, bool ends) {
    const CallRecord record{
        .name = "all_reduce", .reduces = true, .count = count, .site = CallSite::here()};
    const CallWatch::Call call{.group = group_,
                               .members = members_,
                               .instance = 0,
                               .member = rank_,
                               .sequence = sequence_++,
                               .record = record,
                               .halves = {}};
    watch_.posted(call);
    watch_.started(call);
    if (ends) {
      client_.barrier("call", kForever);
      watch_.ended(call);
    }
  }

  void wait() {
    while (true) {
      watch_.poll();
      ::poll(nullptr, 0, 5);
    }
  }

 private:
  const std::string group_ = "world";
  std::vector<int> members_;
  RendezvousClient& client_;
  int rank_;
  std::int64_t sequence_ = 0;
  ProcessWatch watch_;
};

Error timeout_of(int rank) {
  Diagnosis diagnosis;
  diagnosis.code = "TIMEOUT";
  diagnosis.summary = "rank " + std::to_string(rank) + " has waited";
  diagnosis.sides = {{.ranks = {rank}, .action = "waits in all_reduce", .site = {}}};
  return CommunicationError(diagnosis);
}

void play(const std::string& part, RendezvousClient& client, Rank& rank, int number) {
  rank.call(8, true);
  if (part == "end") {
    client.end();
  } else if (part == "die") {
    std::_Exit(3);
  } else if (part == "stop") {
    raise(SIGSTOP);
  } else if (part == "hang") {  // In a call of the backend that never looks up.
    while (true) ::poll(nullptr, 0, 1000);
  } else if (part == "wrong") {
    rank.call(9, false);
    rank.wait();
  } else if (part == "time out") {
    rank.call(8, false);
    client.report(RunFailure::from(timeout_of(number)));
    client.throw_if_given_up();
  } else {  // "wait"
    rank.call(8, false);
    rank.wait();
  }
}

}  // namespace

TEST_CASE("the part of a rank that another test has started", "[.rank]") {
  die_with_parent();
  const std::optional<LaunchedRank> launched = find_launched_rank();
  REQUIRE(launched);
  RendezvousClientOptions options;
  options.host = launched->master_address.value();
  options.port = launched->master_port.value();
  options.token = find_token().value();
  options.rank = launched->rank;
  options.world_size = launched->world_size;
  options.deadline_s = number_in("RANK_DEADLINE");
  options.recorder = &Rank::recorder();
  int exit_code = 0;
  try {
    RendezvousClient client(options);
    Rank rank(client, *launched);
    play(lookup_environment("RANK_PART").value(), client, rank, launched->rank);
  } catch (const Error& error) {
    exit_code = static_cast<int>(error.exit_code());
  }
  std::exit(exit_code);
}

}  // namespace shardsim

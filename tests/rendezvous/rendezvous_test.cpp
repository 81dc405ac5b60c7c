#include <atomic>
#include <fstream>
#include <sstream>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "tests/rendezvous/patience.hpp"
#include "tests/rendezvous/rendezvous_fixture.hpp"

// A server and its clients as threads of one process, over real sockets.
namespace shardsim {
namespace {

using test::client_of;
using test::eventually;
using test::patient_times;
using test::run_ranks;

// Code and text of the Error that is thrown.
std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.code() + ": " + error.what();
  }
  return "none";
}

// The local addresses of this process's listening TCP sockets, as the kernel writes them.
std::vector<std::string> listeners_on(int port) {
  std::vector<std::string> found;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    while (std::getline(file, line)) {
      std::istringstream fields(line);
      std::string number;
      std::string local;
      std::string remote;
      std::string state;
      if (!(fields >> number >> local >> remote >> state) || state != "0A") continue;
      const std::size_t colon = local.rfind(':');
      if (std::stoi(local.substr(colon + 1), nullptr, 16) == port) {
        found.push_back(local.substr(0, colon));
      }
    }
  }
  return found;
}

}  // namespace

TEST_CASE("ranks meet, share keys, add and wait for each other, and end well") {
  constexpr int kRanks = 5;
  const RendezvousServer server({.world_size = kRanks, .times = patient_times()});
  std::string binary(256, '\0');
  for (std::size_t i = 0; i < binary.size(); ++i) binary[i] = static_cast<char>(i);
  std::atomic<int> right = 0;
  run_ranks(kRanks, [&](int rank) {
    RendezvousClient client(client_of(server, rank, kRanks));
    if (rank == 3) client.set("id", binary);
    const bool same = client.get("id", 60.0) == binary;
    client.add("sum", rank);
    client.barrier("added", 60.0);
    const bool added = client.add("sum", 0) == 10 && client.get("sum", 60.0) == "10";
    client.barrier("added", 60.0);  // A name can be used again.
    right += same && added ? 1 : 0;
    client.end();
  });
  CHECK(right == kRanks);
  const Verdict verdict = server.wait();
  CHECK(!verdict.failure);
  CHECK(verdict.exit_code() == ExitCode::ok);
}

TEST_CASE("a rendezvous listens on loopback only, unless it is told otherwise and has a token") {
  const RendezvousServer server({.world_size = 1, .times = patient_times()});
  CHECK(server.address() == "127.0.0.1:" + std::to_string(server.port()));
  CHECK(listeners_on(server.port()) == std::vector<std::string>{"0100007F"});
  const auto off_loopback = [](const std::string& token) {
    const RendezvousServer open({.world_size = 1, .address = "0.0.0.0", .token = token});
    CHECK(listeners_on(open.port()) == std::vector<std::string>{"00000000"});
  };
  CHECK_THAT(error_of([&] { off_loopback(""); }), Catch::StartsWith("E1004"));
  CHECK(error_of([&] { off_loopback("0123456789abcdef"); }) == "none");
  CHECK_THAT(error_of([&] { RendezvousServer taken({.world_size = 1, .port = server.port()}); }),
             Catch::StartsWith("E1001") && Catch::Contains("127.0.0.1:"));
}

TEST_CASE("who has the wrong token, or is no rank of the run, is refused and disturbs nothing") {
  const RendezvousServer server({.world_size = 2, .times = patient_times()});
  RendezvousClient first(client_of(server, 0, 2));
  const auto refusal = [&](const std::function<void(RendezvousClientOptions&)>& change) {
    RendezvousClientOptions options = client_of(server, 1, 2);
    change(options);
    return error_of([&] { RendezvousClient client(options); });
  };
  CHECK_THAT(refusal([](auto& options) { options.token[5] ^= 1; }),
             Catch::StartsWith("E1005") && Catch::Contains("refuses rank 1: the token is wrong"));
  CHECK_THAT(refusal([](auto& options) { options.token.clear(); }),
             Catch::Contains("the token is wrong"));
  // A client that does not know the token learns nothing about the run.
  CHECK_THAT(refusal([](auto& options) {
               options.token += "x";
               options.rank = 7;
             }),
             Catch::Contains("the token is wrong"));
  CHECK_THAT(refusal([](auto& options) { options.rank = 0; }),
             Catch::Contains("rank 0 is there already: process "));
  CHECK_THAT(refusal([](auto& options) { options.rank = 2; }),
             Catch::Contains("it says it is rank 2, but the run has ranks 0 to 1"));
  CHECK_THAT(refusal([](auto& options) { options.world_size = 4; }),
             Catch::Contains("it says there are 4 ranks, but the run has 2"));
  RendezvousClient second(client_of(server, 1, 2));
  first.set("key", "value");
  CHECK(second.get("key", 60.0) == "value");
  first.end();
  second.end();
  CHECK(!server.wait().failure);
}

TEST_CASE("a rendezvous that does not come up is an error that names it") {
  int port = 0;
  {
    const RendezvousServer gone({.world_size = 1});
    port = gone.port();
  }
  RendezvousClientOptions options;
  options.port = port;
  options.connect_timeout_s = 0.3;
  CHECK_THAT(error_of([&] { RendezvousClient client(options); }),
             Catch::StartsWith("E1006") && Catch::Contains("127.0.0.1:" + std::to_string(port)) &&
                 Catch::Contains("Connection refused"));
}

TEST_CASE("waiting for a key or in a barrier ends with who is missing") {
  const RendezvousServer server({.world_size = 4, .times = patient_times()});
  RendezvousClient client(client_of(server, 1, 4));
  RendezvousClient other(client_of(server, 2, 4));
  CHECK_THAT(error_of([&] { static_cast<void>(client.get("address", 0.1)); }),
             Catch::StartsWith("E1008: no rank has set key \"address\" within 0.1 s; not there: "
                               "ranks 0,3"));
  CHECK_THAT(error_of([&] { client.barrier("start", 0.1); }),
             Catch::StartsWith("E1009: barrier \"start\": ranks 0,2-3 of 4 did not arrive"));
}

TEST_CASE("ranks that do not arrive are named, and those that have hear of it") {
  SupervisionTimes times = patient_times();
  times.arrival_s = 0.3;
  const RendezvousServer server({.world_size = 8, .times = times});
  std::vector<std::unique_ptr<RendezvousClient>> clients;
  for (const int rank : {0, 1, 2, 4, 6, 7}) {
    clients.push_back(std::make_unique<RendezvousClient>(client_of(server, rank, 8)));
  }
  const Verdict verdict = server.wait();
  REQUIRE(verdict.failure);
  CHECK(verdict.failure->code == "RENDEZVOUS_MISSING");
  CHECK(verdict.exit_code() == ExitCode::backend_failed);
  CHECK(verdict.failure->diagnosis->summary == "ranks 3,5 of 8 did not arrive within 0.3 s");
  for (const auto& client : clients) {
    CHECK(eventually([&] { return client->given_up(); }));
    CHECK_THAT(error_of([&] { client->throw_if_given_up(); }),
               Catch::StartsWith("RENDEZVOUS_MISSING"));
  }
}

TEST_CASE("a rank that reports a failure hears the verdict, as the others do") {
  const RendezvousServer server({.world_size = 2, .times = patient_times()});
  std::vector<std::string> heard(2);
  run_ranks(2, [&](int rank) {
    RendezvousClient client(client_of(server, rank, 2));
    client.barrier("both", 60.0);
    if (rank == 0) client.report(RunFailure::from(LimitError("E0305", "too large", "less")));
    heard[static_cast<std::size_t>(rank)] = error_of([&] { client.barrier("never", 60.0); });
  });
  CHECK(heard == std::vector<std::string>{"E0305: too large", "E0305: too large"});
  const Verdict verdict = server.wait();
  CHECK(verdict.exit_code() == ExitCode::does_not_fit);
  CHECK(verdict.failure->fix == "less");
}

TEST_CASE("a rank that goes without a farewell has died") {
  const RendezvousServer server({.world_size = 2, .times = patient_times()});
  RendezvousClient client(client_of(server, 0, 2));
  { const RendezvousClient lost(client_of(server, 1, 2)); }
  const Verdict verdict = server.wait();
  CHECK(verdict.failure->code == "RANK_DIED");
  CHECK_THAT(verdict.failure->diagnosis->summary,
             Catch::StartsWith("rank 1 (process ") &&
                 Catch::EndsWith("has died: its connection closed unexpectedly"));
}

TEST_CASE("a rank that loses its rendezvous gives up, and is ended if it does not end") {
  auto server = std::make_unique<RendezvousServer>(RendezvousServerOptions{.world_size = 1});
  RendezvousClientOptions options = client_of(*server, 0, 1);
  std::atomic<bool> resorted = false;
  options.last_resort_after_s = 0.1;
  options.last_resort = [&] { resorted = true; };
  RendezvousClient client(options);
  CHECK(!client.given_up());
  server.reset();
  CHECK(eventually([&] { return client.given_up(); }));
  CHECK_THAT(error_of([&] { client.set("key", "value"); }),
             Catch::StartsWith("E1007: rank 0 has lost the rendezvous at 127.0.0.1:"));
  CHECK(eventually([&] { return resorted.load(); }));
}

TEST_CASE("the launching side can give up") {
  RendezvousServer server({.world_size = 1, .times = patient_times()});
  RendezvousClient client(client_of(server, 0, 1));
  server.give_up(RunFailure::from(Error(ExitCode::interrupted, "E1012", "interrupted")));
  CHECK(server.wait().exit_code() == ExitCode::interrupted);
  CHECK(eventually([&] { return client.given_up(); }));
}

}  // namespace shardsim

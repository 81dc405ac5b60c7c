#include "backends/rendezvous/supervisor.hpp"

#include <algorithm>
#include <map>

#include <catch2/catch.hpp>

#include "tests/rendezvous/sample_messages.hpp"

// Without sockets and clocks: what is decided when.
namespace shardsim {
namespace {

constexpr const char* kToken = "0123456789abcdef";
constexpr double kSupervisorDeadline = 10.0;
constexpr double kSupervisorGrace = 0.5;

// A supervisor of so many ranks, which are there; rank r speaks over connection r.
class Stage {
 public:
  explicit Stage(int num_ranks, int num_arriving)
      : supervisor_(
            num_ranks, kToken,
            {.arrival_s = 30.0,
             .deadline_s = kSupervisorDeadline,
             .grace_s = kSupervisorGrace,
             .farewell_s = 3.0},
            0.0,
            [this](int connection, const RendezvousMessage& message) {
              sent_.emplace_back(connection, message.index());
            },
            [](int) {}) {
    for (int rank = 0; rank < num_arriving; ++rank) {
      say(rank,
          Hello{.token = kToken, .rank = rank, .world_size = num_ranks, .pid = 1, .host = "a"},
          0.0);
    }
  }

  void say(int rank, RendezvousMessage message, double now) {
    supervisor_.on_message(rank, std::move(message), now);
  }
  void time_out(int rank, double now) {
    say(rank, FailureReport{RunFailure::from(Error(ExitCode::communication, "E1008", "waits")), {}},
        now);
  }
  void wait_in_barrier(int rank, double now) {
    StoreRequest request;
    request.id = 1;
    request.kind = StoreRequest::Kind::barrier;
    request.key = "end";
    request.timeout_s = 86400.0;
    say(rank, request, now);
  }
  // All of these live until then, and time passes.
  void live(const std::vector<int>& ranks, double until) {
    for (; now_ < until; now_ += 0.1) {
      for (const int rank : ranks) say(rank, beats_[rank], now_);
      supervisor_.on_time(now_);
    }
  }
  // The rank says this with every sign of life from now on.
  void calls(int rank, const std::string& posted) { beats_[rank].last_posted = posted; }
  [[nodiscard]] bool was_told_to_abort(int rank) const {
    const std::size_t abort = RendezvousMessage(Abort{}).index();
    return std::count(sent_.begin(), sent_.end(), std::pair<int, std::size_t>(rank, abort)) == 1;
  }
  [[nodiscard]] std::string code() const {
    const std::optional<Verdict>& verdict = supervisor_.verdict();
    if (!verdict) return "none";
    return verdict->failure ? verdict->failure->code : "ok";
  }
  Supervisor& supervisor() { return supervisor_; }

 private:
  double now_ = 0.0;
  std::map<int, Beat> beats_;
  std::vector<std::pair<int, std::size_t>> sent_;
  Supervisor supervisor_;
};

}  // namespace

TEST_CASE("ranks that beat are never found silent, one that does not is after the deadline") {
  Stage stage(2, 2);
  stage.live({0, 1}, 50.0);
  CHECK(stage.code() == "none");
  stage.live({0}, 59.0);
  CHECK(!stage.was_told_to_abort(0));
  stage.live({0}, 61.0);
  CHECK(stage.was_told_to_abort(0));
  CHECK(stage.was_told_to_abort(1));  // It may wake up.
  stage.say(0, FlightNote{}, 61.0);
  stage.supervisor().on_time(61.1);
  CHECK(stage.code() == "RANK_SILENT");
}

TEST_CASE("timeouts are decided once every other rank has shown that it lives") {
  Stage stage(3, 3);
  stage.live({0, 1, 2}, 20.0);
  stage.time_out(0, 20.0);
  stage.live({0, 1}, 24.0);  // Rank 2 has stopped.
  CHECK(!stage.was_told_to_abort(0));
  SECTION("it was only slow") {
    stage.live({0, 1, 2}, 24.2);
    CHECK(stage.was_told_to_abort(0));
    stage.live({0, 1, 2}, 28.0);
    CHECK(stage.code() == "TIMEOUT");
  }
  SECTION("it stays away") {
    stage.live({0, 1}, 36.0);
    CHECK(stage.code() == "RANK_SILENT");
  }
}

TEST_CASE("a death is decided after the grace, in which its mismatch may come to light") {
  Stage stage(3, 3);
  stage.live({0, 1, 2}, 5.0);
  stage.say(0, test::sample_call(0, 3), 5.0);
  CallFingerprint other = test::sample_call(1, 3);
  other.count = 1;
  stage.supervisor().on_lost(1, 5.05);
  SECTION("it does not") {
    stage.live({0, 2}, 5.5);
    CHECK(!stage.was_told_to_abort(0));
    stage.live({0, 2}, 9.0);
    CHECK(stage.code() == "RANK_DIED");
  }
  SECTION("it does, though the dead rank's call never comes") {
    other.member = 2;
    stage.say(2, other, 5.3);
    stage.live({0, 2}, 9.0);
    CHECK(stage.code() == "COLL_COUNT");
  }
}

TEST_CASE("a rank that has said it is done may go, and the run ends well when all have") {
  Stage stage(2, 2);
  stage.say(0, End{}, 1.0);
  stage.supervisor().on_lost(0, 1.1);
  stage.live({1}, 20.0);
  CHECK(stage.code() == "none");
  stage.say(1, End{}, 20.0);
  stage.live({}, 20.2);
  CHECK(stage.code() == "ok");
}

TEST_CASE("flight records are waited for, but not for long") {
  Stage stage(3, 3);
  stage.supervisor().on_lost(0, 1.0);
  stage.live({1, 2}, 2.0);
  FlightNote note;
  note.flight.emplace_back().call = "barrier";
  stage.say(1, note, 2.0);
  stage.live({1, 2}, 4.0);
  CHECK(stage.code() == "none");  // Rank 2 may still send its own.
  stage.live({1, 2}, 6.0);
  CHECK(stage.code() == "RANK_DIED");
  CHECK(stage.supervisor().verdict()->flight_records.size() == 1);
  CHECK(stage.supervisor().verdict()->flight_records.at(1).front().call == "barrier");
}

TEST_CASE(
    "a rank that lives but never comes to a barrier ends the run, one that still calls does not") {
  // Ten deadlines are 100 s.
  Stage stage(3, 3);
  stage.wait_in_barrier(0, 0.0);
  stage.live({0, 1, 2}, 50.0);
  stage.calls(1, "#1 send");
  stage.live({0, 1, 2}, 90.0);
  SECTION("it still calls") {
    stage.wait_in_barrier(2, 90.0);
    for (int call = 2; call < 10; ++call) {
      stage.calls(1, "#" + std::to_string(call) + " send");
      stage.live({0, 1, 2}, 90.0 + call * 30.0);
      CHECK(!stage.was_told_to_abort(0));
    }
    stage.live({0, 1, 2}, 425.0);  // Its last call was at 330 s.
    CHECK(!stage.was_told_to_abort(0));
    stage.live({0, 1, 2}, 432.0);
    CHECK(stage.was_told_to_abort(0));
    stage.live({0, 1, 2}, 436.0);
    CHECK(stage.code() == "TIMEOUT");
    CHECK_THAT(stage.supervisor().verdict()->failure->to_text(),
               Catch::Contains("rank 1 of 3 has not come to \"end\"") &&
                   Catch::Contains("made no call for 100 s") &&
                   Catch::Contains("last called #9 send"));
  }
  SECTION("while one that is awaited still calls, the others may wait for it") {
    stage.live({0, 1, 2}, 148.0);
    CHECK(!stage.was_told_to_abort(0));
    stage.live({0, 1, 2}, 158.0);
    REQUIRE(stage.code() == "TIMEOUT");
    CHECK_THAT(stage.supervisor().verdict()->failure->to_text(), Catch::Contains("ranks 1-2 of 3"));
  }
  SECTION("it has ended") {
    stage.wait_in_barrier(2, 90.0);
    stage.say(1, End{}, 90.0);
    stage.live({0, 2}, 195.0);
    CHECK(stage.code() == "TIMEOUT");
  }
  SECTION("it stops") {
    stage.wait_in_barrier(2, 90.0);
    stage.live({0, 2}, 110.0);
    CHECK(stage.code() == "RANK_SILENT");
  }
  SECTION("it comes") {
    stage.wait_in_barrier(2, 90.0);
    stage.wait_in_barrier(1, 120.0);
    stage.live({0, 1, 2}, 900.0);
    CHECK(stage.code() == "none");
  }
}

TEST_CASE("who has not arrived is missing, whatever waits for it") {
  Stage stage(3, 2);
  stage.live({0, 1}, 29.0);
  CHECK(!stage.was_told_to_abort(0));
  stage.live({0, 1}, 35.0);
  CHECK(stage.code() == "RENDEZVOUS_MISSING");
}

}  // namespace shardsim

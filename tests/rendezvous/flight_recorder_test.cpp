#include "backends/rendezvous/flight_recorder.hpp"

#include <catch2/catch.hpp>

namespace shardsim {
namespace {

class Caller {
 public:
  explicit Caller(FlightRecorder& recorder) : recorder_(recorder) {}

  template <class Note>
  void call(std::int64_t sequence, Note note, int instance = 0) {
    const CallRecord record{
        .name = "barrier", .count = -1, .site = {.file = "a.cpp", .line = 7, .function = "f"}};
    note(recorder_, CallWatch::Call{.group = group_,
                                    .members = members_,
                                    .instance = instance,
                                    .member = 0,
                                    .sequence = sequence,
                                    .record = record,
                                    .halves = {}});
  }
  void post(std::int64_t sequence, int instance = 0) {
    call(
        sequence, [](auto& recorder, const auto& call) { recorder.posted(call); }, instance);
  }
  void start(std::int64_t sequence) {
    call(sequence, [](auto& recorder, const auto& call) { recorder.started(call); });
  }
  void end(std::int64_t sequence, int instance = 0) {
    call(
        sequence, [](auto& recorder, const auto& call) { recorder.ended(call); }, instance);
  }

 private:
  FlightRecorder& recorder_;
  const std::string group_ = "world";
  const std::vector<int> members_ = {0, 1};
};

}  // namespace

TEST_CASE("a flight recorder knows when each call was posted, started and ended") {
  double now = 100.0;
  FlightRecorder recorder([&now] { return now; });
  Caller caller(recorder);
  CHECK(recorder.last_posted().empty());
  now = 101.0;
  caller.post(0);
  now = 102.0;
  caller.post(1);
  caller.post(1, 1);  // In another group of that name.
  caller.start(0);
  now = 103.0;
  caller.end(0);
  const FlightRecord record = recorder.record();
  REQUIRE(record.size() == 3);
  CHECK(record[0].state == FlightState::ended);
  CHECK(record[0].posted_s == 1.0);
  CHECK(record[0].started_s == 2.0);
  CHECK(record[0].ended_s == 3.0);
  CHECK(record[1].state == FlightState::posted);
  CHECK(record[1].started_s == -1.0);
  CHECK(record[2].instance == 1);
  CHECK(recorder.last_posted() == "#1 barrier of group world at a.cpp:7");
  CHECK(recorder.last_ended() == "#0 barrier of group world at a.cpp:7");
  caller.end(1, 1);
  CHECK(recorder.record()[1].state == FlightState::posted);
  CHECK(recorder.record()[2].state == FlightState::ended);
  CHECK(to_text(record) ==
        "    posted s    started s      ended s  state    call\n"
        "    1.000000     2.000000     3.000000  ended    #0 barrier of group world at a.cpp:7\n"
        "    2.000000            -            -  posted   #1 barrier of group world at a.cpp:7\n"
        "    2.000000            -            -  posted   #1 barrier of group world at a.cpp:7\n");
}

TEST_CASE("a flight recorder keeps the last 256 calls in order") {
  FlightRecorder recorder([] { return 0.0; });
  Caller caller(recorder);
  for (std::int64_t i = 0; i < 1000; ++i) {
    caller.post(i);
    if (i >= 10) caller.end(i - 10);
  }
  caller.end(3);  // Long gone.
  const FlightRecord record = recorder.record();
  REQUIRE(record.size() == FlightRecorder::kSize);
  for (std::size_t i = 0; i < record.size(); ++i) {
    CHECK(record[i].sequence == static_cast<std::int64_t>(744 + i));
    CHECK((record[i].state == FlightState::ended) == (record[i].sequence < 990));
  }
  CHECK(recorder.last_posted() == "#999 barrier of group world at a.cpp:7");
  CHECK(recorder.last_ended() == "#989 barrier of group world at a.cpp:7");
}

}  // namespace shardsim

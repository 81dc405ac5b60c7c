#include "tests/rendezvous/sample_messages.hpp"

#include <limits>

namespace shardsim::test {

CallFingerprint sample_call(int rank, int size) {
  CallFingerprint call;
  call.group = "world";
  for (int member = 0; member < size; ++member) call.members.push_back(member);
  call.member = rank;
  call.name = "all_reduce";
  call.label = "bucket 3";
  call.reduces = true;
  call.count = 128;
  call.file = "strategies/sync.cpp";
  call.line = 17;
  call.function = "synchronize";
  return call;
}

std::vector<RendezvousMessage> sample_messages() {
  Diagnosis diagnosis;
  diagnosis.code = "COLL_COUNT";
  diagnosis.summary = "members give different sizes";
  diagnosis.group = "dp#1";
  diagnosis.members = {0, 2, 5};
  diagnosis.sequence = 9;
  diagnosis.time = Time::from_picoseconds(12);
  diagnosis.sides = {{.ranks = {5},
                      .action = "all_reduce sum fp32 x 9",
                      .site = {.file = "strategies/sync.cpp", .line = 17, .function = "sync"}},
                     {.ranks = {0, 2}, .action = "all_reduce sum fp32 x 10", .site = {}}};
  diagnosis.cycle = {"rank 0 waits for rank 5"};
  diagnosis.last_matched = "#8 barrier";
  diagnosis.hint = "pad";
  const RunFailure diagnosed = RunFailure::from(diagnosis, ExitCode::communication);
  const RunFailure error =
      RunFailure::from(LimitError("E0305", "17 GiB do not fit into 16", "take more ranks"));
  FlightEntry entry;
  entry.group = "world";
  entry.instance = 1;
  entry.sequence = 3;
  entry.call = "barrier";
  entry.site = "strategies/sync.cpp:18";
  entry.state = FlightState::ended;
  entry.posted_s = 0.25;
  entry.started_s = 0.5;
  entry.ended_s = 0.75;
  CallFingerprint message = sample_call(1, 4);
  message.is_message = true;
  message.sends = true;
  message.root = 2;
  message.counts_hash = std::numeric_limits<std::uint64_t>::max();
  return {
      Hello{.token = "0123456789abcdef", .rank = 3, .world_size = 8, .pid = 4711, .host = "node7"},
      Welcome{},
      Refused{"the token is wrong"},
      StoreRequest{.id = 7,
                   .kind = StoreRequest::Kind::add,
                   .key = "address",
                   .value = std::string("\0\x80\xff", 3),
                   .delta = std::numeric_limits<std::int64_t>::min(),
                   .timeout_s = 2.5},
      StoreReply{.id = 7, .value = "abc", .number = -3, .failure = error},
      StoreReply{.id = 8, .value = "", .number = 0, .failure = {}},
      Beat{.last_posted = "#4 barrier of group world", .last_ended = "#3 split"},
      sample_call(2, 4),
      message,
      FailureReport{.failure = diagnosed, .flight = {entry, entry}},
      FlightNote{.flight = {entry}},
      End{},
      Abort{diagnosed},
  };
}

}  // namespace shardsim::test

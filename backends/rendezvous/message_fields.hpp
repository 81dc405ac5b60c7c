#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "backends/rendezvous/rendezvous_message.hpp"

// Fields of each message and their limits, for message_codec.cpp. One description serves both
// directions: `archive` writes or reads each field.
namespace shardsim {

template <class Integer>
struct FieldRange {
  Integer least = std::numeric_limits<Integer>::min();
  Integer most = std::numeric_limits<Integer>::max();
};

namespace message_limits {

inline constexpr std::size_t kText = 1024;  // Length of a label, a path, a sentence.
inline constexpr std::size_t kMostSides = 32;
inline constexpr int kMostRank = kMaxRendezvousRanks - 1;
}  // namespace message_limits

void describe_fields(auto& archive, Hello& hello) {
  archive.text("token", hello.token, kMaxKeyBytes);
  archive.integer("rank", hello.rank);  // The rendezvous says what is wrong with it.
  archive.integer("world_size", hello.world_size);
  archive.integer("pid", hello.pid);
  archive.text("host", hello.host, kMaxKeyBytes);
}

void describe_fields(auto&, Welcome&) {}

void describe_fields(auto& archive, Refused& refused) {
  archive.text("reason", refused.reason, message_limits::kText);
}

void describe_fields(auto& archive, StoreRequest& request) {
  archive.integer("id", request.id);
  archive.choice("kind", request.kind, StoreRequest::Kind::barrier);
  archive.text("key", request.key, kMaxKeyBytes);
  archive.bytes("value", request.value, kMaxValueBytes);
  archive.integer("delta", request.delta);
  archive.number("timeout_s", request.timeout_s, 0.0, kMaxTimeoutSeconds);
}

void describe_fields(auto& archive, CallSite& site) {
  std::string file = site.file;
  std::string function = site.function;
  archive.text("file", file, message_limits::kText);
  archive.integer("line", site.line);
  archive.text("function", function, message_limits::kText);
  site.file = lasting_text(file);
  site.function = lasting_text(function);
}

void describe_fields(auto& archive, DiagnosisSide& side) {
  archive.ranks("ranks", side.ranks);
  archive.text("action", side.action, message_limits::kText);
  archive.part("site", side.site);
}

void describe_fields(auto& archive, Diagnosis& diagnosis) {
  archive.text("code", diagnosis.code, kMaxKeyBytes);
  archive.text("summary", diagnosis.summary, message_limits::kText);
  archive.text("group", diagnosis.group, message_limits::kText);
  archive.ranks("members", diagnosis.members);
  archive.integer("sequence", diagnosis.sequence);
  std::int64_t time = diagnosis.time.picoseconds();
  archive.integer("time_ps", time);
  diagnosis.time = Time::from_picoseconds(time);
  archive.list("sides", diagnosis.sides, message_limits::kMostSides);
  archive.texts("cycle", diagnosis.cycle, message_limits::kMostSides);
  archive.text("last_matched", diagnosis.last_matched, message_limits::kText);
  archive.text("hint", diagnosis.hint, message_limits::kText);
}

void describe_fields(auto& archive, RunFailure& failure) {
  int exit_code = static_cast<int>(failure.exit_code);
  archive.integer("exit_code", exit_code, {0, 255});
  failure.exit_code = static_cast<ExitCode>(exit_code);
  archive.text("code", failure.code, kMaxKeyBytes);
  archive.text("message", failure.message, 4 * message_limits::kText);
  archive.text("fix", failure.fix, message_limits::kText);
  archive.maybe("diagnosis", failure.diagnosis);
}

void describe_fields(auto& archive, StoreReply& reply) {
  archive.integer("id", reply.id);
  archive.bytes("value", reply.value, kMaxValueBytes);
  archive.integer("number", reply.number);
  archive.maybe("failure", reply.failure);
}

void describe_fields(auto& archive, Beat& beat) {
  archive.text("last_posted", beat.last_posted, message_limits::kText);
  archive.text("last_ended", beat.last_ended, message_limits::kText);
}

void describe_fields(auto& archive, CallFingerprint& call) {
  archive.text("group", call.group, message_limits::kText);
  archive.ranks("members", call.members);
  archive.integer("instance", call.instance);
  archive.integer("member", call.member, {0, message_limits::kMostRank});
  archive.flag("is_message", call.is_message);
  archive.flag("sends", call.sends);
  archive.text("name", call.name, kMaxKeyBytes);
  archive.text("label", call.label, message_limits::kText);
  archive.choice("reduce", call.reduce, ReduceOp::product);
  archive.flag("reduces", call.reduces);
  archive.choice("dtype", call.dtype, DType::int64);
  archive.integer("root", call.root, {-1, message_limits::kMostRank});
  archive.integer("count", call.count);
  archive.word("counts_hash", call.counts_hash);
  archive.integer("padding", call.padding);
  archive.choice("traffic", call.traffic, TrafficClass::scalar);
  archive.text("file", call.file, message_limits::kText);
  archive.integer("line", call.line);
  archive.text("function", call.function, message_limits::kText);
}

void describe_fields(auto& archive, FlightEntry& entry) {
  archive.text("group", entry.group, kMaxKeyBytes);
  archive.integer("instance", entry.instance);
  archive.integer("sequence", entry.sequence);
  archive.text("call", entry.call, message_limits::kText);
  archive.text("site", entry.site, message_limits::kText);
  archive.choice("state", entry.state, FlightState::ended);
  archive.number("posted_s", entry.posted_s, -1.0, 1e12);
  archive.number("started_s", entry.started_s, -1.0, 1e12);
  archive.number("ended_s", entry.ended_s, -1.0, 1e12);
}

void describe_fields(auto& archive, FailureReport& report) {
  archive.part("failure", report.failure);
  archive.list("flight", report.flight, FlightRecorder::kSize);
}

void describe_fields(auto& archive, FlightNote& note) {
  archive.list("flight", note.flight, FlightRecorder::kSize);
}

void describe_fields(auto&, End&) {}

void describe_fields(auto& archive, Abort& abort) { archive.part("failure", abort.failure); }

}  // namespace shardsim

#include "backends/rendezvous/rendezvous_client.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

namespace shardsim {

namespace {

void check_length(const char* what, const std::string& text, std::size_t most) {
  if (text.size() <= most) return;
  throw UsageError("E1011",
                   fmt::format("a {} of the rendezvous has {} bytes, at most {} are allowed", what,
                               text.size(), most));
}

const std::string& checked_key(const std::string& key) {
  check_length("key", key, kMaxKeyBytes);
  return key;
}

double checked_timeout(double timeout_s) { return std::clamp(timeout_s, 0.0, kMaxTimeoutSeconds); }

CallFingerprint fingerprint_of(const CallWatch::Call& call) {
  const CallRecord& record = call.record;
  return {.group = call.group,
          .members = {call.members.begin(), call.members.end()},
          .instance = call.instance,
          .member = call.member,
          .name = record.name,
          .label = record.label,
          .reduce = record.reduce,
          .reduces = record.reduces,
          .dtype = record.dtype,
          .root = record.root,
          .count = record.count,
          .counts_hash = record.counts_hash,
          .padding = record.padding,
          .traffic = record.traffic,
          .file = record.site.file,
          .line = record.site.line,
          .function = record.site.function};
}

}  // namespace

void RendezvousClient::set(const std::string& key, const std::string& value) {
  check_length("value", value, kMaxValueBytes);
  static_cast<void>(
      line_->ask({.kind = StoreRequest::Kind::set, .key = checked_key(key), .value = value}));
}

std::string RendezvousClient::get(const std::string& key, double timeout_s) {
  return line_
      ->ask({.kind = StoreRequest::Kind::get,
             .key = checked_key(key),
             .timeout_s = checked_timeout(timeout_s)})
      .value;
}

std::int64_t RendezvousClient::add(const std::string& key, std::int64_t delta) {
  return line_->ask({.kind = StoreRequest::Kind::add, .key = checked_key(key), .delta = delta})
      .number;
}

void RendezvousClient::barrier(const std::string& name, double timeout_s) {
  static_cast<void>(line_->ask({.kind = StoreRequest::Kind::barrier,
                                .key = checked_key(name),
                                .timeout_s = checked_timeout(timeout_s)}));
}

void RendezvousClient::report(const RunFailure& failure) {
  if (!line_->offer(FailureReport{failure, line_->flight()})) return;
  line_->wait_until_given_up();
}

void RendezvousClient::throw_if_given_up() const {
  if (!line_->given_up()) return;
  line_->reason()->raise();
}

void ProcessWatch::posted(const Call& call) {
  recorder_.posted(call);
  // Messages with tags match in an order of their own, which fingerprints do not know.
  if (!sends_fingerprints_ || call.record.tag != CallRecord::kNoTag) return;
  CallFingerprint fingerprint = fingerprint_of(call);
  if (call.halves.empty()) {
    client_.post(fingerprint);
    return;
  }
  fingerprint.is_message = true;
  for (const Half& half : call.halves) {
    fingerprint.sends = half.sends;
    fingerprint.name = half.sends ? "send" : "recv";
    fingerprint.root = half.peer;
    fingerprint.dtype = half.dtype;
    fingerprint.count = half.count;
    client_.post(fingerprint);
  }
}

}  // namespace shardsim

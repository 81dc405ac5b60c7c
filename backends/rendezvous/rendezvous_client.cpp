#include "backends/rendezvous/rendezvous_client.hpp"

#include <algorithm>
#include <utility>

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

StoreRequest request_of(StoreRequest::Kind kind, const std::string& key) {
  check_length("key", key, kMaxKeyBytes);
  StoreRequest request;
  request.kind = kind;
  request.key = key;
  return request;
}

CallFingerprint fingerprint_of(const CallWatch::Call& call) {
  const CallRecord& record = call.record;
  CallFingerprint fingerprint;
  fingerprint.group = call.group;
  fingerprint.members.assign(call.members.begin(), call.members.end());
  fingerprint.instance = call.instance;
  fingerprint.member = call.member;
  fingerprint.name = record.name;
  fingerprint.label = record.label;
  fingerprint.reduce = record.reduce;
  fingerprint.reduces = record.reduces;
  fingerprint.dtype = record.dtype;
  fingerprint.root = record.root;
  fingerprint.count = record.count;
  fingerprint.counts_hash = record.counts_hash;
  fingerprint.padding = record.padding;
  fingerprint.traffic = record.traffic;
  fingerprint.file = record.site.file;
  fingerprint.line = record.site.line;
  fingerprint.function = record.site.function;
  return fingerprint;
}

}  // namespace

void RendezvousClient::set(const std::string& key, const std::string& value) {
  check_length("value", value, kMaxValueBytes);
  StoreRequest request = request_of(StoreRequest::Kind::set, key);
  request.value = value;
  static_cast<void>(line_->ask(std::move(request)));
}

std::string RendezvousClient::get(const std::string& key, double timeout_s) {
  StoreRequest request = request_of(StoreRequest::Kind::get, key);
  request.timeout_s = std::clamp(timeout_s, 0.0, kMaxTimeoutSeconds);
  return line_->ask(std::move(request)).value;
}

std::int64_t RendezvousClient::add(const std::string& key, std::int64_t delta) {
  StoreRequest request = request_of(StoreRequest::Kind::add, key);
  request.delta = delta;
  return line_->ask(std::move(request)).number;
}

void RendezvousClient::barrier(const std::string& name, double timeout_s) {
  StoreRequest request = request_of(StoreRequest::Kind::barrier, name);
  request.timeout_s = std::clamp(timeout_s, 0.0, kMaxTimeoutSeconds);
  static_cast<void>(line_->ask(std::move(request)));
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
  if (!sends_fingerprints_) return;
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

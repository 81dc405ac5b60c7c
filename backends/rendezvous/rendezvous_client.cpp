#include "backends/rendezvous/rendezvous_client.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "backends/rendezvous/rendezvous_line.hpp"

namespace shardsim {

RendezvousClient::RendezvousClient(RendezvousClientOptions options)
    : line_(open_rendezvous_line(std::move(options))) {}

RendezvousClient::~RendezvousClient() = default;

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

void RendezvousClient::post(const CallFingerprint& call) { line_->post(call); }

void RendezvousClient::report(const RunFailure& failure) {
  if (!line_->offer(FailureReport{failure, line_->flight()})) return;
  line_->wait_until_given_up();
}

void RendezvousClient::end() { line_->end(); }

bool RendezvousClient::given_up() const { return line_->given_up(); }

std::optional<RunFailure> RendezvousClient::reason() const { return line_->reason(); }

void RendezvousClient::throw_if_given_up() const {
  if (!line_->given_up()) return;
  line_->reason()->raise();
}

}  // namespace shardsim

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "backends/process_backend.hpp"
#include "backends/rendezvous/flight_recorder.hpp"
#include "backends/rendezvous/rendezvous_message.hpp"

namespace shardsim {

struct RendezvousClientOptions {
  std::string host = "127.0.0.1";
  int port = 0;
  std::string token;
  int rank = 0;
  int world_size = 1;
  double connect_timeout_s = 30.0;
  /// As the server's: a tenth of it, at most 0.5 s, lies between two signs of life; and a server
  /// that says nothing for as long is lost.
  double deadline_s = 10.0;
  /// Whose last calls go with the signs of life, and whose record goes with a failure; may be null.
  /// Must outlive the client.
  const FlightRecorder* recorder = nullptr;
  /// Called from the client's thread if this process still has a client so long after the run was
  /// given up. Empty: ends the process at once with the exit code of a failed backend.
  double last_resort_after_s = 2.0;
  std::function<void()> last_resort;
};

/// The connection of a RendezvousClient and the thread that holds it; the client says what goes
/// over it.
class RendezvousLine {
 public:
  virtual ~RendezvousLine() = default;
  RendezvousLine() = default;
  RendezvousLine(const RendezvousLine&) = delete;
  RendezvousLine& operator=(const RendezvousLine&) = delete;

  /// Returns with the answer; throws its failure, or why the run is given up.
  virtual StoreReply ask(StoreRequest request) = 0;
  /// False, and nothing is sent, if the run is given up.
  virtual bool offer(const RendezvousMessage& message) = 0;
  /// The same, but throws why the run is given up.
  void post(const RendezvousMessage& message) {
    if (!offer(message)) reason()->raise();
  }
  /// Says End and returns with the server's answer.
  virtual void end() = 0;
  virtual void wait_until_given_up() = 0;
  [[nodiscard]] virtual bool given_up() const = 0;
  [[nodiscard]] virtual std::optional<RunFailure> reason() const = 0;
  [[nodiscard]] virtual FlightRecord flight() const = 0;
};

/// Returns once it is connected; throws as the constructor of RendezvousClient does.
[[nodiscard]] std::unique_ptr<RendezvousLine> open_rendezvous_line(RendezvousClientOptions options);

/// A rank's line to its rendezvous. A thread of its own, which never calls the backend, gives signs
/// of life and hears when the run is given up: then all functions here throw the reason, and a
/// process that does not end by itself is ended. Besides `given_up`, all calls come from one
/// thread.
class RendezvousClient {
 public:
  /// Connects, with retries until the server is up. Throws Error E1006 if it does not come up in
  /// time, E1005 if it refuses this rank.
  explicit RendezvousClient(RendezvousClientOptions options)
      : line_(open_rendezvous_line(std::move(options))) {}
  RendezvousClient(const RendezvousClient&) = delete;
  RendezvousClient& operator=(const RendezvousClient&) = delete;

  /// Throw the reason if the run is given up meanwhile; Error E1011 for a key or value that is too
  /// long; `get` E1008 and `barrier` E1009 at their timeouts.
  void set(const std::string& key, const std::string& value);
  [[nodiscard]] std::string get(const std::string& key, double timeout_s);
  /// The sum after it; a key that is not there counts as 0.
  std::int64_t add(const std::string& key, std::int64_t delta);
  void barrier(const std::string& name, double timeout_s);

  /// Posts a call for comparison and returns at once (unless far too much is unsent).
  void post(const CallFingerprint& call) { line_->post(call); }

  /// Says why this rank gives up, with its flight record, and waits for the verdict: a process that
  /// ends before may have its whole job ended, and others taken for the cause. Returns when the run
  /// is given up; then `throw_if_given_up` throws the verdict, which may name another cause.
  void report(const RunFailure& failure);

  /// This rank has done all it had to. Returns when the server knows. The server takes a rank whose
  /// client goes without it for dead.
  void end() { line_->end(); }

  /// Whether the run has been given up elsewhere, or the server is lost. From any thread.
  [[nodiscard]] bool given_up() const { return line_->given_up(); }
  [[nodiscard]] std::optional<RunFailure> reason() const { return line_->reason(); }
  void throw_if_given_up() const;

 private:
  std::unique_ptr<RendezvousLine> line_;
};

/// Watches the calls of a process that has a rendezvous. It notes them in a flight recorder, and
/// sends their fingerprints, if asked to, to be compared with the other ranks'. It ends waits when
/// the run is given up elsewhere. Both objects must outlive it.
class ProcessWatch final : public CallWatch {
 public:
  ProcessWatch(RendezvousClient& client, FlightRecorder& recorder, bool sends_fingerprints)
      : client_(client), recorder_(recorder), sends_fingerprints_(sends_fingerprints) {}

  void posted(const Call& call) override;
  void started(const Call& call) override { recorder_.started(call); }
  void ended(const Call& call) override { recorder_.ended(call); }
  void poll() override { client_.throw_if_given_up(); }

 private:
  RendezvousClient& client_;
  FlightRecorder& recorder_;
  const bool sends_fingerprints_;
};

}  // namespace shardsim

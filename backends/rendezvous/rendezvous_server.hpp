#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "backends/rendezvous/supervisor.hpp"

namespace shardsim {

struct RendezvousServerOptions {
  int world_size = 1;
  /// Listening address: a name or an address of this machine. Off loopback `token` must be given.
  std::string address = "127.0.0.1";
  int port = 0;  ///< 0: any that is free.
  /// Secret that every connection must send first; empty: one is made.
  std::string token;
  SupervisionTimes times;
  /// Called once from the server's thread when the verdict is there; may be empty.
  std::function<void(const Verdict&)> on_verdict;
};

/// Serves one run's rendezvous from a thread of its own: keys and values, heartbeats, fingerprints,
/// reports; and decides what went wrong, once. Starts before the ranks, and must outlive them. All
/// functions may be called from any thread.
class RendezvousServer {
 public:
  /// Listens when it returns. Throws Error E1001 if it cannot, E1004 if the address is not on
  /// loopback and no token is given.
  explicit RendezvousServer(RendezvousServerOptions options);
  ~RendezvousServer();
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  /// "127.0.0.1:41234": what ranks get as SHARDSIM_RENDEZVOUS.
  [[nodiscard]] std::string address() const;
  [[nodiscard]] int port() const;
  [[nodiscard]] const std::string& token() const;

  /// The launcher's account of a rank's process end: "was killed by signal 9". It makes the verdict
  /// more telling, and is no event by itself.
  void note_process_end(int rank, const std::string& description);
  /// The launching side ends the run for a reason of its own (mpirun failed, an interrupt).
  void give_up(const RunFailure& failure);

  /// The verdict, once every rank has ended or the run has failed and ranks had time to send their
  /// flight records.
  [[nodiscard]] std::optional<Verdict> verdict() const;
  /// Waits for it. There always is one, if ranks or launcher keep living: the times see to it.
  [[nodiscard]] Verdict wait() const;
  /// Value that ranks left under `key`; ask when there is a verdict.
  [[nodiscard]] std::optional<std::string> value(const std::string& key) const;

 private:
  class Service;
  std::unique_ptr<Service> service_;
};

}  // namespace shardsim

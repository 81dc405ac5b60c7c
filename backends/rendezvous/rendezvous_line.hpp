#pragma once

#include <memory>
#include <optional>

#include "backends/rendezvous/rendezvous_client.hpp"

namespace shardsim {

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

}  // namespace shardsim

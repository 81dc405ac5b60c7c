#pragma once

#include "backends/call_watch.hpp"
#include "backends/rendezvous/flight_recorder.hpp"
#include "backends/rendezvous/rendezvous_client.hpp"

namespace shardsim {

/// Watches the calls of a process that has a rendezvous: notes them in a flight recorder, sends
/// their fingerprints to be compared with the other ranks' (if asked to), and ends waits when the
/// run is given up elsewhere. Both objects must outlive it.
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

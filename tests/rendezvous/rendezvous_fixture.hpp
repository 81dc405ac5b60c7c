#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "backends/rendezvous/rendezvous_client.hpp"
#include "backends/rendezvous/rendezvous_server.hpp"

namespace shardsim::test {

inline RendezvousClientOptions client_of(const RendezvousServer& server, int rank, int world_size) {
  RendezvousClientOptions options;
  options.port = server.port();
  options.token = server.token();
  options.rank = rank;
  options.world_size = world_size;
  options.deadline_s = 60.0;
  // Threads of a test share a process, which must not end.
  options.last_resort = [] {};
  return options;
}

/// Times for tests in which nothing should be found too slow, however loaded the machine is.
inline SupervisionTimes patient_times() {
  return {.arrival_s = 60.0, .deadline_s = 60.0, .grace_s = 0.2, .farewell_s = 10.0};
}

/// Runs `body` once per rank, each on a thread of its own.
inline void run_ranks(int world_size, const std::function<void(int rank)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace shardsim::test

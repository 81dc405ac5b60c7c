#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "backends/rendezvous/rendezvous_message.hpp"

namespace shardsim {

/// The keys and values of a rendezvous, and who waits for which. Knows neither sockets nor clocks.
class KeyStore {
 public:
  struct Answer {
    int rank = 0;
    StoreReply reply;
  };

  explicit KeyStore(int world_size) : world_size_(world_size) {}

  /// Takes a rank's request; the answers are for it and for others whose waits this ends.
  [[nodiscard]] std::vector<Answer> ask(int rank, const StoreRequest& request, double now);

  /// Answers to those that have waited too long; they name ranks that are not `present`, or have
  /// not come to the barrier.
  [[nodiscard]] std::vector<Answer> expire(double now, const std::set<int>& present);

  /// A barrier that is waited in.
  struct Gathering {
    std::string name;
    double since_s = 0.0;  ///< Since the first rank came.
    std::vector<int> absent;
  };
  [[nodiscard]] std::vector<Gathering> gatherings() const;

  [[nodiscard]] const std::map<std::string, std::string>& values() const { return values_; }

  /// A rank that is gone waits for nothing.
  void forget(int rank);

 private:
  struct Waiting {
    int rank;
    std::int64_t id;
    double until_s;  // timeout_s after it came.
    double timeout_s;
  };
  std::vector<Answer> set(int rank, const StoreRequest& request);
  std::vector<Answer> add(int rank, const StoreRequest& request);
  std::vector<Answer> arrive(int rank, const StoreRequest& request, double now);
  bool store(const std::string& key, const std::string& value);
  // Ranks of the world, ascending.
  [[nodiscard]] std::vector<int> all_but(const std::set<int>& present) const;
  [[nodiscard]] std::vector<int> absent_from(const std::vector<Waiting>& waiting) const;

  const int world_size_;
  std::map<std::string, std::string> values_;
  std::size_t num_bytes_ = 0;
  std::map<std::string, std::vector<Waiting>> getting_;   // By key.
  std::map<std::string, std::vector<Waiting>> barriers_;  // By name; gone when complete.
};

}  // namespace shardsim

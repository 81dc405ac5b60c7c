#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/rendezvous/rendezvous_message.hpp"

namespace shardsim {

/// Matches the calls of all ranks: collectives of a group by their order, messages by sender,
/// receiver and order. It drops matched calls. Each rank's calls must come in order.
class FingerprintTable {
 public:
  /// A rank's call. Returns why it cannot be one (members without the rank, and the like), or that
  /// far too many calls wait for others'; nothing if it is fine, whether it matches or not.
  [[nodiscard]] std::optional<std::string> add(int rank, CallFingerprint call, double now);

  /// The first mismatch that is complete: all members have come, or `grace_s` has passed since it
  /// showed, so that the odd one out can be told from the rest.
  [[nodiscard]] std::optional<Diagnosis> mismatch(double now, double grace_s) const;
  /// Whether there is any, complete or not.
  [[nodiscard]] bool has_mismatch() const { return !mismatched_.empty(); }

  /// Calls that wait for others'.
  [[nodiscard]] std::int64_t num_waiting() const { return num_waiting_; }

 private:
  struct Call {
    int rank;
    CallFingerprint fingerprint;
  };
  struct Meeting {            // A collective as far as its members have come.
    std::vector<Call> calls;  // The first represents those that agree with it.
    std::vector<int> agreeing;
    double mismatch_s = -1.0;
  };
  struct Channel {             // From one member to another.
    std::deque<Call> waiting;  // All of one side.
    std::int64_t num_matched = 0;
    double mismatch_s = -1.0;
    std::vector<Call> mismatched;  // The sender's and the receiver's.
  };
  struct Group {
    std::vector<std::int64_t> next;  // By member.
    std::map<std::int64_t, Meeting> meetings;
    std::map<std::pair<int, int>, Channel> channels;
    std::string last_matched;
  };
  using GroupKey = std::tuple<std::string, std::vector<int>, int>;
  struct Mismatch {  // Place of one: a collective's sequence, or a channel.
    GroupKey group;
    std::int64_t sequence;
    std::pair<int, int> channel;
    bool is_message;
  };

  void meet(const GroupKey& key, Group& group, int rank, CallFingerprint&& call, double now);
  void pass(const GroupKey& key, Group& group, int rank, CallFingerprint&& call, double now);

  std::map<GroupKey, Group> groups_;
  std::vector<Mismatch> mismatched_;
  std::int64_t num_waiting_ = 0;
};

}  // namespace shardsim

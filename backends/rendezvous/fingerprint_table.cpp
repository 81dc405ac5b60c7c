#include "backends/rendezvous/fingerprint_table.hpp"

#include "backends/call.hpp"

namespace shardsim {

namespace {

// A rank gets no further ahead than it may post without anyone's answer.
constexpr std::int64_t kMostWaiting = 1 << 16;
constexpr std::size_t kMostGroups = 1 << 16;
constexpr std::size_t kMostMismatches = 64;

}  // namespace

std::optional<std::string> FingerprintTable::add(int rank, CallFingerprint call, double now) {
  const auto size = static_cast<int>(call.members.size());
  if (call.member >= size || call.members[static_cast<std::size_t>(call.member)] != rank) {
    return "a call in a group that it does not belong to";
  }
  if (call.is_message && (call.root < 0 || call.root >= size)) {
    return "a message to or from a rank outside its group";
  }
  if (num_waiting_ >= kMostWaiting) {
    return std::to_string(num_waiting_) + " calls for which the other members' do not come";
  }
  GroupKey key(call.group, call.members, call.instance);
  const auto found = groups_.find(key);
  if (found == groups_.end() && groups_.size() >= kMostGroups) return "calls in too many groups";
  Group& group = found == groups_.end() ? groups_[key] : found->second;
  group.next.resize(static_cast<std::size_t>(size));
  if (call.is_message) {
    pass(key, group, rank, std::move(call), now);
  } else {
    meet(key, group, rank, std::move(call), now);
  }
  return std::nullopt;
}

void FingerprintTable::meet(const GroupKey& key, Group& group, int rank, CallFingerprint&& call,
                            double now) {
  const std::int64_t sequence = group.next[static_cast<std::size_t>(call.member)]++;
  const std::size_t size = call.members.size();
  Meeting& meeting = group.meetings[sequence];
  if (meeting.calls.empty()) {
    meeting.calls.push_back({rank, std::move(call)});
    meeting.agreeing.push_back(rank);
    ++num_waiting_;
  } else if (same_call(meeting.calls.front().fingerprint.record(), call.record())) {
    meeting.agreeing.push_back(rank);
  } else {
    if (meeting.calls.size() == 1 && mismatched_.size() < kMostMismatches) {
      meeting.mismatch_s = now;
      mismatched_.push_back({key, sequence, {}, false});
    }
    meeting.calls.push_back({rank, std::move(call)});
    ++num_waiting_;
  }
  if (meeting.agreeing.size() < size) return;
  group.last_matched =
      "#" + std::to_string(sequence) + " " + meeting.calls.front().fingerprint.record().describe();
  --num_waiting_;
  group.meetings.erase(sequence);
}

void FingerprintTable::pass(const GroupKey& key, Group& group, int rank, CallFingerprint&& call,
                            double now) {
  const std::pair<int, int> ends =
      call.sends ? std::pair(call.member, call.root) : std::pair(call.root, call.member);
  Channel& channel = group.channels[ends];
  if (!channel.mismatched.empty()) return;  // Later calls prove nothing.
  if (channel.waiting.empty() || channel.waiting.front().fingerprint.sends == call.sends) {
    channel.waiting.push_back({rank, std::move(call)});
    ++num_waiting_;
    return;
  }
  Call other = std::move(channel.waiting.front());
  channel.waiting.pop_front();
  --num_waiting_;
  if (same_message(other.fingerprint.record(), call.record())) {
    ++channel.num_matched;
    return;
  }
  if (mismatched_.size() >= kMostMismatches) return;
  const bool sends = call.sends;
  channel.mismatch_s = now;
  channel.mismatched.push_back(std::move(other));
  channel.mismatched.push_back({rank, std::move(call)});
  if (sends) std::swap(channel.mismatched[0], channel.mismatched[1]);
  mismatched_.push_back({key, channel.num_matched, ends, true});
}

std::optional<Diagnosis> FingerprintTable::mismatch(double now, double grace_s) const {
  for (const Mismatch& found : mismatched_) {
    const Group& group = groups_.at(found.group);
    const auto& [name, members, instance] = found.group;
    std::optional<Diagnosis> diagnosis;
    if (found.is_message) {
      const std::vector<Call>& calls = group.channels.at(found.channel).mismatched;
      diagnosis = explain_mismatched_message(
          found.sequence, {calls[0].rank, calls[0].fingerprint.record_with_site()},
          {calls[1].rank, calls[1].fingerprint.record_with_site()});
    } else {
      const Meeting& meeting = group.meetings.at(found.sequence);
      const std::size_t come = meeting.agreeing.size() + meeting.calls.size() - 1;
      if (come < members.size() && now < meeting.mismatch_s + grace_s) continue;
      std::vector<MadeCall> others;
      for (std::size_t i = 1; i < meeting.calls.size(); ++i) {
        others.push_back({meeting.calls[i].rank, meeting.calls[i].fingerprint.record_with_site()});
      }
      diagnosis = explain_mismatched_calls(name, found.sequence,
                                           meeting.calls.front().fingerprint.record_with_site(),
                                           meeting.agreeing, others);
    }
    diagnosis->group = name;
    diagnosis->members = ascending(members);
    diagnosis->sequence = found.sequence;
    diagnosis->last_matched = group.last_matched;
    return diagnosis;
  }
  return std::nullopt;
}

}  // namespace shardsim

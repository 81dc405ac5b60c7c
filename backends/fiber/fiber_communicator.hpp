#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/call.hpp"
#include "backends/fiber/fiber_group.hpp"

namespace shardsim {

/// One member's stream of a group: what it has posted last, who holds a Work of it, and what it has
/// moved. Belongs to a communicator; where a Work outlives that, the world keeps the stream, so
/// that waiting for it is an error with a name.
class FiberStream : public WorkOwner {
 public:
  /// `made_at`: the call that made the communicator.
  FiberStream(FiberGroup& group, int member, CallSite made_at);

  [[nodiscard]] FiberGroup& group() const { return group_; }
  [[nodiscard]] int member() const { return member_; }
  [[nodiscard]] RankState& rank() const { return rank_; }
  [[nodiscard]] CallSite made_at() const { return made_at_; }
  [[nodiscard]] const TrafficCounters& counters() {
    flush();
    return counters_;
  }
  /// Calls `visit(member, counters)` for this member and all that it represents.
  template <class Visitor>
  void for_each_member(const Visitor& visit) {
    flush();
    visit(member_, counters_);
    for (const StoodFor& other : others_) visit(other.member, other.counters);
  }

  /// Meets the prerequisites that come from this member: the compute stream (or `after`) and the
  /// stream's previous operation. REQUIRES: `after` is null or pending.
  void order(FiberOperation& operation, const Work* after);
  /// The next operation comes behind this one.
  void set_last(FiberOperation& operation) { last_ = &operation; }
  [[nodiscard]] Work hand_out(FiberOperation& operation) {
    ++num_handles_;
    if (observer_ != nullptr) observer_->posted(operation);
    return {*this, &operation};
  }
  /// The next of its rank's open communicators.
  FiberStream* next_open = nullptr;
  /// Its communicator goes.
  void close() { closed_ = true; }
  /// The world goes, but a handle or the communicator is left: from here on both do nothing.
  void outlive_world() { outlives_world_ = true; }
  [[nodiscard]] bool outlives_world() const { return outlives_world_; }
  [[nodiscard]] bool has_handles() const { return num_handles_ > 0; }

  /// A look that has found nothing takes its time.
  void poll();

  void wait(void* operation) override;
  void abandon(void* operation) noexcept override;
  [[nodiscard]] bool has_ended(void* operation) override;
  [[nodiscard]] std::size_t first_ended(std::span<void* const> operations) override;

 protected:
  // `Kind`: that of the operation, as far as it is known.
  template <class Kind>
  void wait_as(Kind& operation);

 private:
  // Throws UsageError (E0510) if the run has ended.
  void require_world() const;

  // The other members that this one represents; each may move something else.
  struct StoodFor {
    int member = 0;
    TrafficCounters counters;
  };
  // Messages one way between the same two members, which are counted at once.
  struct Link {
    int from = -1;
    int to = -1;
    TrafficClass traffic = TrafficClass::payload;
    std::int64_t bytes = 0;
    std::int64_t calls = 0;
  };
  void start_waiting(FiberOperation& operation);
  template <class Kind>
  inline void account(Kind& operation);
  void trace(const FiberOperation& operation, std::int64_t sent);
  inline void count_message(const MessageEnd& end, TrafficClass traffic);
  void flush(bool sends);
  void flush();
  void count(FiberOperation& operation, int member, const Moved& moved, TrafficCounters& counters);
  [[nodiscard]] Diagnosis report(const FiberOperation& operation, const char* code) const;

  // Members that every wait looks at come first.
  FiberGroup& group_;
  RankState& rank_;
  int member_;
  int num_handles_ = 0;
  FiberOperation* last_ = nullptr;  // The last operation, while it may be unresolved.
  Time free_;
  RankObserver* observer_;  // Mostly null.
  int track_ = -1;          // Index in the rank's trace; -1: not traced.
  bool closed_ = false;
  bool outlives_world_ = false;
  std::array<Link, 2> last_links_;  // Not yet counted: received, and sent.
  std::vector<StoodFor> others_;
  TrafficCounters counters_;
  CallSite made_at_;
};

/// The same for tagged messages: of what it waits for the kind is known.
class TaggedStream final : public FiberStream {
 public:
  using FiberStream::FiberStream;
  void wait(void* operation) override;
};

/// One member's end of a group: posts operations on its stream.
class FiberCommunicator final : public Communicator {
 public:
  FiberCommunicator(FiberGroup& group, int member, CallSite made_at = {});
  ~FiberCommunicator() override;

  [[nodiscard]] int rank() const override { return member_; }
  [[nodiscard]] int size() const override { return group_.size(); }
  [[nodiscard]] const std::string& name() const override { return group_.name(); }
  [[nodiscard]] FiberGroup& group() const { return group_; }
  [[nodiscard]] const TrafficCounters* counters() const override { return &stream_->counters(); }

  Work post(const Call& call) override;
  std::unique_ptr<Communicator> split(int color, int key, const std::string& name,
                                      CallSite site) override;

  [[nodiscard]] std::unique_ptr<TaggedMessages> tagged_messages() override;
  [[nodiscard]] Diagnosis diagnosis_of(const std::string& action, CallSite site) const override;

 private:
  CollectiveOperation& open(CollectiveKind kind, const CallRecord& record);
  Work enter(CollectiveOperation& operation, const Call& call);
  Work post_collective(const Call& call);
  Work post_batch(const Call& call);
  // A send or receive as it is to be posted; null: not at all. `changed` may hold it.
  const P2pOp* mended(const P2pOp& half, P2pOp& changed);
  // `handle`: what is waited for, if not the transfer itself.
  FiberOperation& post_transfer(const P2pOp& half, const Call& call,
                                const FiberOperation* handle = nullptr);
  void watch(const FiberOperation& operation, const FiberOperation& handle,
             const CallRecord& record, const CallOptions& options, const Tensor& output,
             const Tensor& input, std::int64_t own_chunk) const;
  [[nodiscard]] std::int64_t own_offset(std::int64_t count, const CallOptions& options) const;
  void watch_collective(const CollectiveOperation& operation, const Call& call) const;
  FiberOperation& post_buffered_send(TransferOperation& transfer, const CallRecord& record,
                                     const Tensor& buffer, const CallOptions& options);
  void require_unfolded(const char* call) const;

  FiberGroup& group_;
  int member_;
  RankState& rank_;
  std::unique_ptr<FiberStream> stream_;
  std::int64_t num_sends_ = 0;
  std::int64_t num_halves_ = 0;
};

}  // namespace shardsim

#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/kernel/diagnosis.hpp"

#include "backends/call.hpp"
#include "backends/fiber/call_repair.hpp"
#include "backends/fiber/fiber_operation.hpp"
#include "backends/tensor.hpp"

// Watches what is legal to post and wrong to do: buffers touched while they are in use, and the
// order of calls of different groups; and says why a run stands still.
namespace shardsim {

class FiberStream;
class Mailbox;

/// Finds buffers that are touched while a communication uses them. Between post and wait an input
/// must keep its value and an output must not be looked at. The schedule of a run decides whether
/// that goes wrong on a cluster, but not whether it is found here. An output holds a
/// pattern until it is waited for, before its data have moved and after; its own content is kept
/// apart. Only where calls are under way one behind the other on one buffer, it stays in sight.
class BufferWatch final : public AccessListener {
 public:
  /// The content of buffers when they were waited for, by the number of the use.
  using Contents = std::vector<std::vector<std::byte>>;
  /// Another content of the first `number` uses of buffers in place of the pattern: what `from`
  /// has, or else what is there anyway. If a run ends otherwise then, a rank has read them.
  struct Variation {
    std::int64_t number = 0;
    const Contents* from = nullptr;  ///< Outlives the watch.
    Contents* to = nullptr;          ///< Is filled in, if given.
  };
  BufferWatch(Engine& engine, Variation variation);
  ~BufferWatch() override;
  BufferWatch(const BufferWatch&) = delete;
  BufferWatch& operator=(const BufferWatch&) = delete;

  /// A call that takes buffers.
  struct Post {
    int rank = 0;                               ///< In the world.
    const FiberOperation* operation = nullptr;  ///< Moves the data.
    const FiberOperation* handle = nullptr;     ///< Is waited for.
    const FiberStream* stream = nullptr;        ///< Null: of none, as tagged messages.
    const FiberOperation* after = nullptr;
    bool fills_all = true;  ///< All of the output. A message may be shorter than its buffer.
    CallRecord record;
    const std::string* group = nullptr;
  };
  /// Offset in elements of an input within the output, or of an output within the input; -1: none.
  static constexpr std::int64_t kNowhere = -1;
  /// `output` and `input`: undefined if the call has none; the same tensor for calls in place.
  void posted(const Post& post, const Tensor& output, const Tensor& input,
              std::int64_t own_chunk = kNowhere);
  /// Before and after the data of `operation` move, on its ranks in the world.
  void moving(const FiberOperation& operation, std::span<const int> ranks);
  void moved(const FiberOperation& operation, std::span<const int> ranks);
  /// `rank` has waited for `handle`.
  void waited(int rank, const FiberOperation& handle);

  void touched(const Tensor& part, Access access, CallSite site) override;

  [[nodiscard]] std::int64_t num_uses() const { return num_uses_; }
  /// The report on an early read of the last use that was varied, if there was such a one.
  [[nodiscard]] const std::optional<Diagnosis>& last_varied() const { return last_varied_; }

 private:
  // The content that a buffer must hold until the next event.
  enum class Holds : std::uint8_t { anything, pattern, hash };
  struct Use : Post {
    std::int64_t order = 0;
    Tensor tensor;
    bool reads = false;
    bool writes = false;
    Holds holds = Holds::anything;
    bool hidden = false;  // Until it is waited for; but for the time in which data move.
    const std::vector<std::byte>* looks = nullptr;  // Like this; null: like the pattern.
    std::vector<std::byte> kept = {};  // The content meanwhile; empty: whatever was there.
    std::uint64_t hash = 0;
    // First touch of unknown kind; the buffer's content then shows whether it was a write.
    std::optional<CallSite> touched = {};
  };
  using Uses = std::vector<Use>;

  void add(const Post& post, const Tensor& tensor, bool reads, bool writes);
  [[nodiscard]] bool behind(const Uses& uses, const Use& later, const Use& earlier) const;
  void hide(Use& use, bool keeps);
  void reveal(Use& use);
  void stop_hiding(Use& use);
  [[nodiscard]] const std::vector<std::byte>* content_of(const Use& use) const;
  void write_down(const Use& use);
  void verify(const Use& use);
  [[nodiscard]] Diagnosis diagnose(const char* code, const Use& use, const std::string& what,
                                   CallSite site, const char* hint) const;
  void report(const char* code, const Use& use, const std::string& what, CallSite site,
              const char* hint);

  Engine& engine_;
  AccessListener* outer_;   // Listened before; again when this one goes.
  std::vector<Uses> uses_;  // By rank, in the order of posts.
  std::int64_t num_uses_ = 0;
  Variation variation_;
  std::optional<Diagnosis> last_varied_;
  std::int64_t written_ = 0;                   // Bytes of Variation::to.
  std::vector<std::vector<std::byte>> spare_;  // Memory for what is kept.
};

/// Finds operations of two groups that two ranks post in different orders while both are under way.
/// That is legal here, as a stream waits for no other. If a device runs few kernels at once, as
/// with NCCL, each rank may hold the place that the other waits for. Source: NCCL user guide,
/// "Using multiple NCCL communicators concurrently".
class OrderWatch {
 public:
  explicit OrderWatch(int num_ranks) : under_way_(static_cast<std::size_t>(num_ranks)) {}

  /// `after`: may be null.
  void posted(int rank, const FiberOperation& operation, CallSite site, const FiberOperation* after,
              Time now);
  void waited(int rank, const FiberOperation& operation);
  /// One for each pair of groups. While these live.
  [[nodiscard]] std::vector<Diagnosis> warnings() const;

 private:
  // An operation, told apart from others that use the same object later.
  using Name = std::pair<std::uint64_t, std::int64_t>;  // Group id, and sequence.
  struct UnderWay {
    const FiberOperation* operation;
    Name name;
    CallSite site;
  };
  // Ranks that have posted two operations in one order.
  struct Side {
    std::vector<int> ranks;
    CallSite second;  // Call of the later one on the first of them.
  };
  struct Seen {
    const FiberGroup* lower;  // In the order of names.
    const FiberGroup* higher;
    Time time;
    Side in_order;
    Side reversed;
  };
  void compare(int rank, const UnderWay& first, const UnderWay& second, Time now);
  [[nodiscard]] static Diagnosis warning(std::int64_t sequence, const Seen& seen);

  std::vector<std::vector<UnderWay>> under_way_;  // By rank.
  std::map<std::pair<Name, Name>, Seen> seen_;
};

/// The reason why no rank can continue: calls that do not match, if there are any; else a member
/// that will never come; else ranks that wait for each other in a cycle. One report, the root cause
/// only.
[[nodiscard]] Diagnosis explain_stall(const Engine& engine, const std::deque<FiberGroup>& groups,
                                      const Mailbox& mailbox);

/// Ranks that may be to blame for a run that stands still, as `found` says; none where that says
/// it.
[[nodiscard]] std::vector<Suspicion> suspicions_of(const Engine& engine,
                                                   const std::deque<FiberGroup>& groups,
                                                   const Mailbox& mailbox, const Diagnosis& found);

/// The current waits of all ranks.
[[nodiscard]] std::vector<DiagnosisSide> waiting_sides(const Engine& engine);

}  // namespace shardsim

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "backends/message/message_plan.hpp"
#include "backends/message/transport.hpp"
#include "backends/process_backend.hpp"
#include "backends/traffic_counters.hpp"

namespace shardsim {

/// Memory of the elements of a full buffer: element `first` lies at `data`.
struct Window {
  std::byte* data = nullptr;
  std::int64_t first = 0;
};

/// One call of this process on its way: carries out the rounds of its plan. Buffers are neither
/// read nor written before `start`.
class MessageOperation : public std::enable_shared_from_this<MessageOperation> {
 public:
  /// `source` is what is sent from and `target` where things arrive: the same unless in all_to_all
  /// and point-to-point. `output`, `input`: kept until the end.
  MessageOperation(const CallRecord& record, std::int64_t sequence, MessagePlan plan,
                   const Tensor& output, const Tensor& input);

  void set_windows(const Window& source, const Window& target);
  /// Works on a copy of the input, whole; of the result, `kept` goes to the output.
  void work_on_copy(const Slice& kept) {
    copy_ = Copy::work;
    kept_ = kept;
  }
  /// Sends from a copy of the input, since what arrives would overwrite it.
  void send_from_copy() { copy_ = Copy::source; }
  /// Copied from the input, from its element `begin`, to `to`, an element of the target, first.
  void copy_first(const Slice& from, std::int64_t to);
  /// Buffers of a batch, by MessageStep::buffer; slices are then in bytes.
  void set_parts(std::vector<Tensor> parts, std::vector<CallWatch::Half> halves) {
    parts_ = std::move(parts);
    halves_ = std::move(halves);
    element_bytes_ = 1;
  }
  /// Ranges of the record's padding; empty: at the end. REQUIRES: there is some.
  void set_padding_at(std::span<const ElementRange> ranges);
  void set_rendezvous() { rendezvous_ = true; }
  /// Starts when `earlier` has ended, and not before its turn on its own group.
  void follow(std::shared_ptr<const MessageOperation> earlier) { after_ = std::move(earlier); }
  /// Divides what is reduced by this, once. 1: does not.
  void set_divisor(int divisor) { divisor_ = divisor; }
  /// Is done by the library's own collective instead of the plan, which is only counted. `counts`,
  /// `receive_counts`: see NativeCall.
  void set_native(CollectiveKind kind, std::vector<std::int64_t> counts,
                  std::vector<std::int64_t> receive_counts);
  /// A barrier instead of a plan.
  void set_barrier() { is_barrier_ = true; }

  [[nodiscard]] bool ready() const { return !after_ || after_->ended_; }
  [[nodiscard]] bool ended() const { return ended_; }
  /// Goes on as far as it can without waiting; true if anything happened. REQUIRES: ready().
  bool advance(Transport& transport);

  [[nodiscard]] const CallRecord& record() const { return record_; }
  /// Halves of a point-to-point call; empty: a collective.
  [[nodiscard]] const std::vector<CallWatch::Half>& halves() const { return halves_; }
  [[nodiscard]] bool begun() const { return begun_; }
  [[nodiscard]] std::int64_t sequence() const { return sequence_; }
  /// Peers of messages that are under way, each once, ascending.
  [[nodiscard]] std::vector<int> awaited_peers() const;
  /// Traffic of this process, counted message by message.
  [[nodiscard]] const TrafficCounters& moved() const { return moved_; }
  /// The same payload by link, as ranks of the group; empty for scalars.
  [[nodiscard]] const LinkTable& links() const { return links_; }

 private:
  struct Flight {
    Transport::Request request = 0;
    const MessageStep* message = nullptr;  // Null: the barrier, or a native collective.
    bool done = false;
  };

  // Arguments and data of the library's own collective.
  struct Native {
    CollectiveKind kind;
    std::vector<std::int64_t> counts;
    std::vector<std::int64_t> receive_counts;
    std::vector<std::byte> in;
  };

  void begin();
  void post_native(Transport& transport);
  void end_native(int self);
  void post_round(Transport& transport);
  [[nodiscard]] static bool is_done(Transport& transport, const Flight& flight);
  void end_round();
  void finish();
  void post(Transport& transport, const MessageStep& message);
  void count(int self, const MessageStep& message);
  [[nodiscard]] std::byte* at(const Window& window, std::int64_t element) const {
    return window.data + (element - window.first) * element_bytes_;
  }
  [[nodiscard]] std::byte* place_of(const MessageStep& message) const;
  [[nodiscard]] std::int64_t bytes_of(const Slice& slice) const {
    return slice.count * element_bytes_;
  }

  CallRecord record_;
  std::int64_t sequence_;
  MessagePlan plan_;
  Tensor output_;
  Tensor input_;
  Window source_;
  Window target_;
  std::int64_t element_bytes_;
  std::vector<Tensor> parts_;
  std::vector<CallWatch::Half> halves_;
  std::unique_ptr<Native> native_;
  std::vector<ElementRange> padding_at_;
  Slice kept_;
  Slice copied_from_;
  std::int64_t copied_to_ = 0;
  int divisor_ = 1;
  enum class Copy : std::uint8_t { none, source, work } copy_ = Copy::none;
  bool rendezvous_ = false;
  bool is_barrier_ = false;
  bool begun_ = false;
  bool ended_ = false;
  std::size_t round_ = 0;
  std::shared_ptr<const MessageOperation> after_;
  std::vector<Flight> flights_;
  std::vector<std::vector<std::byte>> arrived_;  // For receives that reduce, in order.
  std::vector<std::byte> work_;
  TrafficCounters moved_;
  LinkTable links_;
};

}  // namespace shardsim

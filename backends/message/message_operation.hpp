#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/message/message_plan.hpp"
#include "backends/message/process_rank.hpp"
#include "backends/message/transport.hpp"

namespace shardsim {

/// Memory of the elements of a full buffer: element `first` lies at `data`.
struct Window {
  std::byte* data = nullptr;
  std::int64_t first = 0;
};

/// One call of this process on its way: carries out the rounds of its plan. Buffers are neither
/// read nor written before `start`.
class MessageOperation final : public ProcessOperation {
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
  void set_parts(std::span<const P2pOp> halves) {
    set_halves(halves);
    for (const P2pOp& half : halves) parts_.push_back(half.buffer);
    element_bytes_ = 1;
  }
  void set_rendezvous() { rendezvous_ = true; }
  /// Is done by the library's own collective instead of the plan, which is only counted. `counts`,
  /// `receive_counts`: see NativeCall.
  void set_native(CollectiveKind kind, std::vector<std::int64_t> counts,
                  std::vector<std::int64_t> receive_counts);
  /// A barrier instead of a plan.
  void set_barrier() { is_barrier_ = true; }

  [[nodiscard]] bool ready() const { return !after_ || after_->ended(); }
  [[nodiscard]] bool ended() const override { return ended_; }
  /// Goes on as far as it can without waiting; true if anything happened. REQUIRES: ready().
  bool advance(Transport& transport);

  [[nodiscard]] bool begun() const { return begun_; }
  /// Peers of messages that are under way, each once, ascending.
  [[nodiscard]] std::vector<int> awaited_peers() const;

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
  [[nodiscard]] std::byte* at(const Window& window, std::int64_t element) const {
    return window.data + (element - window.first) * element_bytes_;
  }
  [[nodiscard]] std::byte* place_of(const MessageStep& message) const;
  [[nodiscard]] std::int64_t bytes_of(const Slice& slice) const {
    return slice.count * element_bytes_;
  }

  MessagePlan plan_;
  Tensor output_;
  Tensor input_;
  Window source_;
  Window target_;
  std::int64_t element_bytes_;
  std::vector<Tensor> parts_;
  std::unique_ptr<Native> native_;
  Slice kept_;
  Slice copied_from_;
  std::int64_t copied_to_ = 0;
  enum class Copy : std::uint8_t { none, source, work } copy_ = Copy::none;
  bool rendezvous_ = false;
  bool is_barrier_ = false;
  bool begun_ = false;
  bool ended_ = false;
  std::size_t round_ = 0;
  std::vector<Flight> flights_;
  std::vector<std::vector<std::byte>> arrived_;  // For receives that reduce, in order.
  std::vector<std::byte> work_;
};

}  // namespace shardsim

#include "strategies/pipeline/protocol.hpp"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "strategies/pipeline/lower.hpp"

namespace shardsim {

namespace {

constexpr std::int64_t kUnknown = -1;
constexpr int kNone = -1;

// Times of a transfer; kUnknown until they are known.
struct Transfer {
  std::int64_t send_posted = kUnknown;
  std::int64_t receive_posted = kUnknown;
  std::int64_t end = kUnknown;
};

// A stream of transfers, in the order in which they are sent.
struct Edge {
  std::vector<int> sent;
  std::size_t num_started = 0;
  std::int64_t free_at = 0;
};

struct RankProgress {
  int next = 0;  // The cell to do.
  std::int64_t clock = 0;
  int waits_for = kNone;  // The transfer whose end lets it continue.
};

class Player {
 public:
  // `costs` null: nothing takes any time, and no spans are kept.
  Player(const PipelineSchedule& schedule, const ProtocolCosts* costs)
      : schedule_(schedule),
        costs_(costs),
        is_lowered_(schedule.is_lowered()),
        transfers_(2 * index_of(schedule.num_stages()) * index_of(schedule.shape.num_microbatches)),
        edges_(num_edges(schedule.shape.num_ranks)),
        ranks_(schedule.actions.size()) {
    if (costs == nullptr) return;
    for (const std::vector<Action>& cells : schedule.actions) spans_.emplace_back(cells.size());
  }

  void play() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      queue_.push_back(static_cast<int>(rank));
    }
    while (!queue_.empty()) {
      const int rank = queue_.front();
      queue_.pop_front();
      while (has_next(rank) && step(rank)) ++ranks_[index_of(rank)].next;
    }
  }

  std::vector<std::vector<ActionSpan>> take_spans() {
    if (is_lowered_) fill_transfer_spans();
    return std::move(spans_);
  }

  [[nodiscard]] std::vector<StuckRank> stuck() const {
    std::vector<StuckRank> stuck;
    for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
      if (!has_next(rank)) continue;
      const Cell at{rank, ranks_[index_of(rank)].next};
      const Action& action = cells_of(rank)[index_of(at.cell)];
      if (is_compute(action.kind)) {
        stuck.push_back({at, sender_of(missing_input(at))});
      } else {
        stuck.push_back({at, receiver_of(*message_of(schedule_, rank, action))});
      }
    }
    return stuck;
  }

 private:
  [[nodiscard]] const std::vector<Action>& cells_of(int rank) const {
    return schedule_.actions[index_of(rank)];
  }
  [[nodiscard]] bool has_next(int rank) const {
    return index_of(ranks_[index_of(rank)].next) < cells_of(rank).size();
  }
  [[nodiscard]] int transfer_of(const Message& message) const {
    const int lane =
        (message.direction == Direction::forward ? 0 : schedule_.num_stages()) + message.from_stage;
    return lane * schedule_.shape.num_microbatches + message.microbatch;
  }
  Transfer& transfer(int number) { return transfers_[index_of(number)]; }
  Edge& edge(const Message& message) { return edges_[edge_of(message, schedule_.shape.num_ranks)]; }

  // Does the rank's next cell; false if that must wait.
  bool step(int rank) {
    const Action& action = cells_of(rank)[index_of(ranks_[index_of(rank)].next)];
    if (is_compute(action.kind)) return compute(rank, action);
    const auto message = message_of(schedule_, rank, action);
    return is_send(action.kind) ? post_send(rank, *message) : post_receive(rank, *message);
  }

  // Moves the rank's clock to the end of a transfer; false if that is not known yet.
  bool await(int rank, int number) {
    RankProgress& progress = ranks_[index_of(rank)];
    const std::int64_t end = transfer(number).end;
    progress.waits_for = end == kUnknown ? number : kNone;
    if (end == kUnknown) return false;
    progress.clock = std::max(progress.clock, end);
    return true;
  }

  void end_transfer(int number, std::int64_t end, const Message& message) {
    transfer(number).end = end;
    for (const int rank : {message.from_rank, message.to_rank}) {
      if (ranks_[index_of(rank)].waits_for != number) continue;
      ranks_[index_of(rank)].waits_for = kNone;
      queue_.push_back(rank);
    }
  }

  bool await_input(int rank, const Action& action) {
    const auto needed = message_into(schedule_, rank, action);
    return !needed || await(rank, transfer_of(*needed));
  }

  // A result that is not lowered is there one message time after it was made.
  void hand_over(int rank, const Action& action) {
    if (const auto made = message_out_of(schedule_, rank, action)) {
      end_transfer(transfer_of(*made), ranks_[index_of(rank)].clock + message_time(), *made);
    }
  }

  bool compute(int rank, const Action& action) {
    const int cell = ranks_[index_of(rank)].next;
    if (!await_input(rank, action)) return false;
    if (action.overlaps_next && !await_input(rank, cells_of(rank)[index_of(cell + 1)])) {
      return false;
    }
    if (costs_ != nullptr) {
      RankProgress& progress = ranks_[index_of(rank)];
      const std::int64_t start = progress.clock;
      progress.clock += costs_->compute(rank, action, start);
      spans_[index_of(rank)][index_of(progress.next)] = {start, progress.clock};
    }
    if (is_lowered_ || action.overlaps_next) return true;
    if (cell > 0 && cells_of(rank)[index_of(cell - 1)].overlaps_next) {
      hand_over(rank, cells_of(rank)[index_of(cell - 1)]);  // The block ends here.
    }
    hand_over(rank, action);
    return true;
  }

  [[nodiscard]] std::int64_t message_time() const {
    return costs_ == nullptr ? 0 : costs_->message;
  }

  // Index on its edge of the transfer for which the next send must wait.
  [[nodiscard]] std::optional<std::size_t> send_before(const Edge& edge) const {
    if (edge.sent.size() < index_of(schedule_.sends_in_flight)) return std::nullopt;
    return edge.sent.size() - index_of(schedule_.sends_in_flight);
  }

  bool post_send(int rank, const Message& message) {
    Edge& on = edge(message);
    const auto before = send_before(on);
    if (before && !await(rank, on.sent[*before])) return false;
    on.sent.push_back(transfer_of(message));
    transfer(on.sent.back()).send_posted = ranks_[index_of(rank)].clock;
    start_transfers(on, message);
    return true;
  }

  bool post_receive(int rank, const Message& message) {
    transfer(transfer_of(message)).receive_posted = ranks_[index_of(rank)].clock;
    start_transfers(edge(message), message);
    return true;
  }

  // `message`: any of the edge.
  void start_transfers(Edge& edge, const Message& message) {
    for (; edge.num_started < edge.sent.size(); ++edge.num_started) {
      const int number = edge.sent[edge.num_started];
      const Transfer& next = transfer(number);
      if (next.receive_posted == kUnknown) return;
      edge.free_at =
          std::max({next.send_posted, next.receive_posted, edge.free_at}) + message_time();
      end_transfer(number, edge.free_at, message);
    }
  }

  void fill_transfer_spans() {
    for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
      for (std::size_t cell = 0; cell < cells_of(rank).size(); ++cell) {
        const Action& action = cells_of(rank)[cell];
        if (is_compute(action.kind)) continue;
        const Transfer& of = transfer(transfer_of(*message_of(schedule_, rank, action)));
        spans_[index_of(rank)][cell] = {is_send(action.kind) ? of.send_posted : of.receive_posted,
                                        of.end};
      }
    }
  }

  // The missing input of a compute action: its own, or that of the other half of its block.
  [[nodiscard]] Message missing_input(const Cell& at) const {
    const std::vector<Action>& cells = cells_of(at.rank);
    const auto own = message_into(schedule_, at.rank, cells[index_of(at.cell)]);
    if (own && transfers_[index_of(transfer_of(*own))].end == kUnknown) return *own;
    return *message_into(schedule_, at.rank, cells[index_of(at.cell + 1)]);
  }

  // The cell that makes or sends a missing message.
  [[nodiscard]] Cell sender_of(const Message& message) const {
    const std::vector<Action>& cells = cells_of(message.from_rank);
    int cell = 0;
    const auto sends = [&](const Action& action) {
      if (is_lowered_) {
        return is_send(action.kind) && message_of(schedule_, message.from_rank, action) == message;
      }
      return message_out_of(schedule_, message.from_rank, action) == message;
    };
    while (!sends(cells[index_of(cell)])) ++cell;
    return {message.from_rank, cell};
  }

  // The receive that is missing for the transfer that must end before `message` can be sent. Both
  // ends of an edge have the same order.
  [[nodiscard]] Cell receiver_of(const Message& message) const {
    const std::size_t on = edge_of(message, schedule_.shape.num_ranks);
    std::size_t to_pass = *send_before(edges_[on]);
    const std::vector<Action>& cells = cells_of(message.to_rank);
    for (int cell = 0;; ++cell) {
      const Action& action = cells[index_of(cell)];
      if (!is_receive(action.kind)) continue;
      const auto received = message_of(schedule_, message.to_rank, action);
      if (edge_of(*received, schedule_.shape.num_ranks) != on) continue;
      if (to_pass-- == 0) return {message.to_rank, cell};
    }
  }

  const PipelineSchedule& schedule_;
  const ProtocolCosts* costs_;
  bool is_lowered_;
  std::vector<Transfer> transfers_;  // By direction, sending stage, microbatch.
  std::vector<Edge> edges_;          // By edge_of.
  std::vector<RankProgress> ranks_;
  std::vector<std::vector<ActionSpan>> spans_;
  std::deque<int> queue_;
};

}  // namespace

std::vector<StuckRank> find_stuck_ranks(const PipelineSchedule& schedule) {
  Player player(schedule, nullptr);
  player.play();
  return player.stuck();
}

std::vector<std::vector<ActionSpan>> play_protocol(const PipelineSchedule& schedule,
                                                   const ProtocolCosts& costs) {
  Player player(schedule, &costs);
  player.play();
  return player.take_spans();
}

}  // namespace shardsim

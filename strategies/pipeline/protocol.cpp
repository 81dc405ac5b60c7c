#include "strategies/pipeline/protocol.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "strategies/pipeline/lower.hpp"
#include "strategies/pipeline/message.hpp"

namespace shardsim {

namespace {

constexpr std::int64_t kUnknown = -1;

std::size_t index_of(int number) { return static_cast<std::size_t>(number); }

// What is known of a transfer. Times are kUnknown until then.
struct Transfer {
  Cell send;
  Cell receive;
  std::int64_t send_posted = kUnknown;
  std::int64_t receive_posted = kUnknown;
  std::int64_t end = kUnknown;
};

// A stream of transfers, in the order in which they are sent.
struct Edge {
  std::vector<std::size_t> sent;
  std::size_t num_started = 0;
  std::int64_t free_at = 0;
};

struct RankProgress {
  int next = 0;  // The cell to do.
  std::int64_t clock = 0;
  bool is_queued = false;
};

class Player {
 public:
  Player(const PipelineSchedule& schedule, const ProtocolCosts& costs)
      : schedule_(schedule),
        costs_(costs),
        is_lowered_(schedule.is_lowered()),
        transfers_(2 * index_of(schedule.num_stages()) * index_of(schedule.shape.num_microbatches)),
        ranks_(schedule.actions.size()) {
    for (const std::vector<Action>& cells : schedule.actions) spans_.emplace_back(cells.size());
    find_ends();
  }

  ProtocolOutcome play() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) enqueue(static_cast<int>(rank));
    while (!queue_.empty()) {
      const int rank = queue_.front();
      queue_.pop_front();
      ranks_[index_of(rank)].is_queued = false;
      while (has_next(rank) && step(rank)) ++ranks_[index_of(rank)].next;
    }
    fill_transfer_spans();
    return {std::move(spans_), find_stuck()};
  }

 private:
  [[nodiscard]] const std::vector<Action>& cells_of(int rank) const {
    return schedule_.actions[index_of(rank)];
  }
  [[nodiscard]] bool has_next(int rank) const {
    return index_of(ranks_[index_of(rank)].next) < cells_of(rank).size();
  }
  [[nodiscard]] std::size_t transfer_of(const Message& message) const {
    const int lane =
        (message.direction == Direction::forward ? 0 : schedule_.num_stages()) + message.from_stage;
    return index_of(lane) * index_of(schedule_.shape.num_microbatches) +
           index_of(message.microbatch);
  }
  Edge& edge_of(const Message& message) {
    return edges_[{static_cast<int>(message.direction), schedule_.rank_of(message.from_stage),
                   schedule_.rank_of(message.to_stage)}];
  }
  void enqueue(int rank) {
    if (std::exchange(ranks_[index_of(rank)].is_queued, true)) return;
    queue_.push_back(rank);
  }

  // Where each transfer is sent and received, to say what a stuck rank waits for.
  void find_ends() {
    for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
      for (int cell = 0; cell < static_cast<int>(cells_of(rank).size()); ++cell) {
        const Action& action = cells_of(rank)[index_of(cell)];
        const auto moved = is_lowered_ ? message_of(schedule_, rank, action)
                                       : message_out_of(schedule_, rank, action);
        if (!moved) continue;
        Transfer& transfer = transfers_[transfer_of(*moved)];
        (is_receive(action.kind) ? transfer.receive : transfer.send) = {rank, cell};
      }
    }
  }

  // Does the rank's next cell; false if that must wait.
  bool step(int rank) {
    const Action& action = cells_of(rank)[index_of(ranks_[index_of(rank)].next)];
    if (is_compute(action.kind)) return compute(rank, action);
    const auto message = message_of(schedule_, rank, action);
    return is_send(action.kind) ? post_send(rank, *message) : post_receive(rank, *message);
  }

  bool compute(int rank, const Action& action) {
    RankProgress& progress = ranks_[index_of(rank)];
    if (const auto needed = message_into(schedule_, rank, action)) {
      const Transfer& transfer = transfers_[transfer_of(*needed)];
      if (transfer.end == kUnknown) return false;
      progress.clock = std::max(progress.clock, transfer.end);
    }
    const std::int64_t start = progress.clock;
    progress.clock += costs_.compute(action.kind, schedule_.stage_of(rank, action.chunk));
    spans_[index_of(rank)][index_of(progress.next)] = {start, progress.clock};
    if (is_lowered_) return true;
    if (const auto made = message_out_of(schedule_, rank, action)) {
      transfers_[transfer_of(*made)].end = progress.clock + costs_.message;
      enqueue(schedule_.rank_of(made->to_stage));
    }
    return true;
  }

  // The transfer for which a send must wait before it is posted.
  std::optional<std::size_t> send_before(const Edge& edge) const {
    if (edge.sent.size() < index_of(schedule_.sends_in_flight)) return std::nullopt;
    return edge.sent[edge.sent.size() - index_of(schedule_.sends_in_flight)];
  }

  bool post_send(int rank, const Message& message) {
    RankProgress& progress = ranks_[index_of(rank)];
    Edge& edge = edge_of(message);
    if (const auto before = send_before(edge)) {
      if (transfers_[*before].end == kUnknown) return false;
      progress.clock = std::max(progress.clock, transfers_[*before].end);
    }
    edge.sent.push_back(transfer_of(message));
    transfers_[edge.sent.back()].send_posted = progress.clock;
    start_transfers(edge, message);
    return true;
  }

  bool post_receive(int rank, const Message& message) {
    transfers_[transfer_of(message)].receive_posted = ranks_[index_of(rank)].clock;
    start_transfers(edge_of(message), message);
    return true;
  }

  void start_transfers(Edge& edge, const Message& message) {
    while (edge.num_started < edge.sent.size()) {
      Transfer& transfer = transfers_[edge.sent[edge.num_started]];
      if (transfer.receive_posted == kUnknown) return;
      const std::int64_t start =
          std::max({transfer.send_posted, transfer.receive_posted, edge.free_at});
      transfer.end = edge.free_at = start + costs_.message;
      ++edge.num_started;
      // One side has just posted; the other may wait for it.
      enqueue(schedule_.rank_of(message.from_stage));
      enqueue(schedule_.rank_of(message.to_stage));
    }
  }

  void fill_transfer_spans() {
    if (!is_lowered_) return;
    for (const Transfer& transfer : transfers_) {
      const auto fill = [&](const Cell& cell, std::int64_t posted) {
        if (posted == kUnknown) return;
        spans_[index_of(cell.rank)][index_of(cell.cell)] = {posted, transfer.end};
      };
      fill(transfer.send, transfer.send_posted);
      fill(transfer.receive, transfer.receive_posted);
    }
  }

  [[nodiscard]] std::vector<StuckRank> find_stuck() {
    std::vector<StuckRank> stuck;
    for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
      if (!has_next(rank)) continue;
      const Cell at{rank, ranks_[index_of(rank)].next};
      const Action& action = cells_of(rank)[index_of(at.cell)];
      if (is_compute(action.kind)) {
        stuck.push_back({at, transfers_[transfer_of(*message_into(schedule_, rank, action))].send});
      } else {
        const Edge& edge = edge_of(*message_of(schedule_, rank, action));
        stuck.push_back({at, transfers_[*send_before(edge)].receive});
      }
    }
    return stuck;
  }

  const PipelineSchedule& schedule_;
  const ProtocolCosts& costs_;
  bool is_lowered_;
  std::vector<Transfer> transfers_;  // By direction, sending stage, microbatch.
  std::map<std::array<int, 3>, Edge> edges_;
  std::vector<RankProgress> ranks_;
  std::vector<std::vector<ActionSpan>> spans_;
  std::deque<int> queue_;
};

}  // namespace

ProtocolOutcome play_protocol(const PipelineSchedule& schedule, const ProtocolCosts& costs) {
  return Player(schedule, costs).play();
}

}  // namespace shardsim

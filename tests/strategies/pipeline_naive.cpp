#include "tests/strategies/pipeline_naive.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace shardsim::test {

namespace {

// A tensor: whether it goes forward, the stage that made it, the microbatch.
using TensorName = std::tuple<bool, int, int>;
// Forward or not, from rank, to rank.
using EdgeName = std::tuple<bool, int, int>;

struct Naive {
  explicit Naive(const PipelineSchedule& lowered) : schedule(lowered) {}

  const PipelineSchedule& schedule;
  std::set<std::tuple<ActionKind, int, int>> done;  // By kind, stage, microbatch; I counts as B.
  std::map<EdgeName, std::vector<TensorName>> sent;
  std::map<EdgeName, std::vector<TensorName>> received;

  [[nodiscard]] bool is_done(ActionKind kind, int stage, int microbatch) const {
    return done.count({kind, stage, microbatch}) > 0;
  }
  [[nodiscard]] EdgeName edge(bool forward, int from_stage) const {
    return {forward, schedule.rank_of(from_stage),
            schedule.rank_of(forward ? from_stage + 1 : from_stage - 1)};
  }

  enum class Verdict { goes_on, waits, is_wrong };

  Verdict fetch(bool forward, int from_stage, int to_stage, int microbatch) {
    if (schedule.rank_of(from_stage) == schedule.rank_of(to_stage)) {
      const ActionKind kind = forward ? ActionKind::forward : ActionKind::backward;
      return is_done(kind, from_stage, microbatch) ? Verdict::goes_on : Verdict::is_wrong;
    }
    const TensorName name{forward, from_stage, microbatch};
    const std::vector<TensorName>& posted = received[edge(forward, from_stage)];
    const auto place = std::find(posted.begin(), posted.end(), name);
    if (place == posted.end()) return Verdict::is_wrong;
    const auto index = static_cast<std::size_t>(place - posted.begin());
    const std::vector<TensorName>& incoming = sent[edge(forward, from_stage)];
    if (index >= incoming.size()) return Verdict::waits;
    return incoming[index] == name ? Verdict::goes_on : Verdict::is_wrong;
  }

  Verdict send(bool forward, int stage, int microbatch) {
    if (!is_done(forward ? ActionKind::forward : ActionKind::backward, stage, microbatch)) {
      return Verdict::is_wrong;
    }
    const EdgeName name = edge(forward, stage);
    const auto limit = static_cast<std::size_t>(schedule.sends_in_flight);
    // The send posted `limit` earlier must have met its receive.
    if (sent[name].size() >= limit && received[name].size() <= sent[name].size() - limit) {
      return Verdict::waits;
    }
    sent[name].push_back({forward, stage, microbatch});
    return Verdict::goes_on;
  }

  Verdict compute(ActionKind kind, int stage, int microbatch) {
    if (kind == ActionKind::backward_weight) {
      return is_done(ActionKind::backward, stage, microbatch) ? Verdict::goes_on
                                                              : Verdict::is_wrong;
    }
    const bool forward = kind == ActionKind::forward;
    if (!forward && !is_done(ActionKind::forward, stage, microbatch)) return Verdict::is_wrong;
    const bool at_end = forward ? stage == 0 : stage == schedule.num_stages() - 1;
    const Verdict verdict =
        at_end ? Verdict::goes_on
               : fetch(forward, forward ? stage - 1 : stage + 1, stage, microbatch);
    if (verdict == Verdict::goes_on) {
      done.insert({forward ? ActionKind::forward : ActionKind::backward, stage, microbatch});
    }
    return verdict;
  }

  // Whether `second` has what it needs, before either half of a block runs.
  Verdict look(int rank, const Action& second) {
    const int stage = schedule.stage_of(rank, second.chunk);
    if (stage == schedule.num_stages() - 1) return Verdict::goes_on;
    return fetch(false, stage + 1, stage, second.microbatch);
  }

  Verdict step(int rank, const Action& action) {
    const int stage = schedule.stage_of(rank, action.chunk);
    switch (action.kind) {
      case ActionKind::send_forward:
        return send(true, stage, action.microbatch);
      case ActionKind::send_backward:
        return send(false, stage, action.microbatch);
      case ActionKind::recv_forward:
        received[edge(true, stage - 1)].push_back({true, stage - 1, action.microbatch});
        return Verdict::goes_on;
      case ActionKind::recv_backward:
        received[edge(false, stage + 1)].push_back({false, stage + 1, action.microbatch});
        return Verdict::goes_on;
      default:
        return compute(action.kind, stage, action.microbatch);
    }
  }
};

}  // namespace

bool naive_runs(const PipelineSchedule& lowered) {
  Naive naive(lowered);
  std::vector<std::size_t> next(lowered.actions.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < next.size(); ++rank) {
      while (next[rank] < lowered.actions[rank].size()) {
        const Action& action = lowered.actions[rank][next[rank]];
        auto verdict = Naive::Verdict::goes_on;
        if (action.overlaps_next) {
          verdict = naive.look(static_cast<int>(rank), lowered.actions[rank][next[rank] + 1]);
        }
        if (verdict == Naive::Verdict::goes_on) {
          verdict = naive.step(static_cast<int>(rank), action);
        }
        if (verdict == Naive::Verdict::is_wrong) return false;
        if (verdict == Naive::Verdict::waits) break;
        ++next[rank];
        moved = true;
      }
    }
  }
  for (std::size_t rank = 0; rank < next.size(); ++rank) {
    if (next[rank] < lowered.actions[rank].size()) return false;
  }
  return naive.sent == naive.received;
}

namespace {

// The posting times of one edge, and from them the ends of its transfers.
struct EdgeTimes {
  std::vector<std::int64_t> sent;
  std::vector<std::int64_t> received;

  [[nodiscard]] std::int64_t end(std::size_t index, std::int64_t message) const {
    std::int64_t end = 0;
    for (std::size_t i = 0; i <= index; ++i) end = std::max({end, sent[i], received[i]}) + message;
    return end;
  }
};

}  // namespace

// All times start at zero and are raised until they satisfy every rule: the least such times.
std::vector<std::vector<ActionSpan>> naive_times(
    const PipelineSchedule& lowered,
    const std::function<std::int64_t(ActionKind kind, int stage)>& compute, std::int64_t message) {
  std::vector<std::vector<ActionSpan>> spans;
  for (const auto& cells : lowered.actions) spans.emplace_back(cells.size());
  std::map<EdgeName, EdgeTimes> old_edges;
  const auto limit = static_cast<std::size_t>(lowered.sends_in_flight);
  for (;;) {
    const auto before = spans;
    std::map<EdgeName, EdgeTimes> edges;
    std::map<TensorName, std::pair<EdgeName, std::size_t>> fetched;
    const auto old_end = [&](const EdgeName& edge, std::size_t index) {
      return old_edges.empty() ? std::int64_t{0} : old_edges.at(edge).end(index, message);
    };
    for (std::size_t row = 0; row < spans.size(); ++row) {
      const int rank = static_cast<int>(row);
      std::int64_t clock = 0;
      for (std::size_t cell = 0; cell < spans[row].size(); ++cell) {
        const Action& action = lowered.actions[row][cell];
        const int stage = lowered.stage_of(rank, action.chunk);
        const bool forward = action.kind == ActionKind::forward ||
                             action.kind == ActionKind::send_forward ||
                             action.kind == ActionKind::recv_forward;
        const int source = forward ? stage - 1 : stage + 1;
        const TensorName tensor{forward, source, action.microbatch};
        if (is_send(action.kind)) {
          const EdgeName name{forward, rank, lowered.rank_of(forward ? stage + 1 : stage - 1)};
          std::vector<std::int64_t>& posted = edges[name].sent;
          if (posted.size() >= limit) clock = std::max(clock, old_end(name, posted.size() - limit));
          spans[row][cell] = {clock, old_end(name, posted.size())};
          posted.push_back(clock);
        } else if (is_receive(action.kind)) {
          const EdgeName name{forward, lowered.rank_of(source), rank};
          std::vector<std::int64_t>& posted = edges[name].received;
          spans[row][cell] = {clock, old_end(name, posted.size())};
          fetched[tensor] = {name, posted.size()};
          posted.push_back(clock);
        } else {
          const auto waited = fetched.find(tensor);
          if (action.kind != ActionKind::backward_weight && waited != fetched.end()) {
            clock = std::max(clock, old_end(waited->second.first, waited->second.second));
          }
          if (action.overlaps_next) {  // Its B may not be waited for later.
            const Action& second = lowered.actions[row][cell + 1];
            const auto also =
                fetched.find({false, lowered.stage_of(rank, second.chunk) + 1, second.microbatch});
            if (also != fetched.end()) {
              clock = std::max(clock, old_end(also->second.first, also->second.second));
            }
          }
          spans[row][cell] = {clock, clock + compute(action.kind, stage)};
          clock = spans[row][cell].end;
        }
      }
    }
    if (!old_edges.empty() && spans == before) return spans;
    old_edges = edges;
    if (edges.empty()) return spans;
  }
}

}  // namespace shardsim::test

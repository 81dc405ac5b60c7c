#include <algorithm>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "sim/kernel/hash.hpp"

#include "backends/tagged_messages.hpp"

#include "sim/harness/checker.hpp"

namespace shardsim {

namespace {

// Draws without open decisions: they change the order of ranks and of ends, which no rank sees.
constexpr int kFewSchedules = 4;

}  // namespace

// --- Random priorities -------------------------------------------------------------------------

PriorityChooser::PriorityChooser(int ranks, int depth, std::int64_t num_choices, std::uint64_t seed)
    : priority_(static_cast<std::size_t>(ranks)) {
  RollingHash draw;
  draw.add(seed);
  const auto below = [&draw](std::uint64_t end) {
    draw.add(end);
    return draw.value() % end;
  };
  std::iota(priority_.begin(), priority_.end(), 0);
  for (std::size_t i = priority_.size(); i > 1; --i) {
    std::swap(priority_[i - 1], priority_[static_cast<std::size_t>(below(i))]);
  }
  for (int change = 1; change < depth; ++change) {
    const auto most = static_cast<std::uint64_t>(std::max<std::int64_t>(num_choices, 1));
    const auto drawn = static_cast<std::size_t>(below(most));
    // Two changes at one decision would be one; with too few decisions there are no more.
    const bool twice = std::ranges::find(changes_, drawn) != changes_.end();
    if (twice && changes_.size() < most) {
      --change;
    } else {
      changes_.push_back(drawn);
    }
  }
}

std::size_t PriorityChooser::highest(std::span<const MessageChoice> candidates) const {
  std::size_t best = 0;
  for (std::size_t i = 1; i < candidates.size(); ++i) {
    const auto rank_of = [&](std::size_t choice) {
      return static_cast<std::size_t>(candidates[choice].message.source);
    };
    if (priority_[rank_of(i)] > priority_[rank_of(best)]) best = i;
  }
  return best;
}

std::size_t PriorityChooser::decide(std::size_t number, std::span<const MessageChoice> candidates) {
  if (std::ranges::find(changes_, number) != changes_.end()) {
    const int falls = candidates[highest(candidates)].message.source;
    priority_[static_cast<std::size_t>(falls)] = --lowest_;
  }
  return highest(candidates);
}

// --- All runs that differ ----------------------------------------------------------------------

// Follows the known path and makes it longer. There it takes the first choice that is not asleep.
class ReducedSearch::Walker final : public ListChooser {
 public:
  explicit Walker(std::vector<Node>& path) : path_(path) {}

  void sent(const SentMessage& message) override { sent_.push_back(message); }
  void waited(int receiver, std::int64_t receive) override {
    auto& mine = waits_[receiver];
    mine.emplace(receive, static_cast<std::int32_t>(mine.size()));
  }
  [[nodiscard]] const std::vector<SentMessage>& sent() const { return sent_; }
  /// Whether the sender of `message` could know which message the receive of `choice` took.
  [[nodiscard]] bool knew(const SentMessage& message, const MessageChoice& choice) const {
    const auto mine = waits_.find(choice.receiver);
    if (mine == waits_.end()) return false;
    const auto place = mine->second.find(choice.receive);
    return place != mine->second.end() && message.known_of(choice.receiver) > place->second;
  }

  std::size_t choose(std::span<const MessageChoice> candidates) override {
    const std::size_t depth = depth_++;
    if (depth == path_.size()) path_.push_back(new_node(candidates));
    const std::size_t taken = path_[depth].taken;
    next_ = taken;
    // A single candidate is no decision of a schedule, but one of the search.
    return candidates.size() == 1 ? 0 : ListChooser::choose(candidates);
  }

 protected:
  std::size_t decide(std::size_t, std::span<const MessageChoice>) override { return next_; }

 private:
  Node new_node(std::span<const MessageChoice> candidates) const {
    Node node;
    node.choices.assign(candidates.begin(), candidates.end());
    if (!path_.empty()) {
      const Node& before = path_.back();
      const int receiver = before.choices[before.taken].receiver;
      const auto keep = [&](const Step& step) {
        // A choice of another receiver makes no difference to this one.
        if (step.receiver != receiver) node.sleep.insert(step);
      };
      for (const Step& step : before.sleep) keep(step);
      for (const std::size_t done : before.done) keep(step_of(before.choices[done]));
    }
    const auto awake = std::ranges::find_if(
        candidates, [&](const auto& choice) { return !node.sleep.contains(step_of(choice)); });
    // All are asleep: such a run was made before. It goes on, since it must end somehow.
    node.taken =
        awake == candidates.end() ? 0 : static_cast<std::size_t>(awake - candidates.begin());
    // All choices of one receiver; others commute with it, unless they bring it more.
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (candidates[i].receiver == candidates[node.taken].receiver) node.backtrack.insert(i);
    }
    return node;
  }

  std::vector<Node>& path_;
  std::vector<SentMessage> sent_;
  // By receiver and open receive: its number among the receives waited for.
  std::map<int, std::map<std::int64_t, std::int32_t>> waits_;
  std::size_t depth_ = 0;
  std::size_t next_ = 0;
};

ReducedSearch::Step ReducedSearch::step_of(const MessageChoice& choice) {
  return {choice.receiver, choice.receive, choice.message};
}

bool ReducedSearch::search(const Run& run, std::int64_t budget) {
  path_.clear();
  for (std::int64_t i = 0; i < budget; ++i) {
    Walker walker(path_);
    if (!run(walker)) return false;
    add_races(walker);
    if (!next()) return true;
  }
  return false;
}

// Finds messages that a receive could have taken, had they come in time: their senders did not know
// the message it took instead. Then any other choice at that point may be what brings them.
void ReducedSearch::add_races(const Walker& walker) {
  const std::vector<SentMessage>& sent = walker.sent();
  std::vector<std::set<MessageName>> before(path_.size());  // Taken before each node.
  std::set<MessageName> taken;
  for (std::size_t i = 0; i < path_.size(); ++i) {
    const MessageChoice& mine = path_[i].choices[path_[i].taken];
    before[i] = taken;
    taken.insert(mine.message);
  }
  for (std::size_t i = 0; i < path_.size(); ++i) {
    Node& node = path_[i];
    const MessageChoice& mine = node.choices[node.taken];
    const bool raced = std::ranges::any_of(sent, [&](const SentMessage& message) {
      const bool fits = message.destination == mine.receiver &&
                        (mine.source == kAnySource || mine.source == message.name.source) &&
                        (mine.tag == kAnyTag || mine.tag == message.tag);
      if (!fits || before[i].contains(message.name)) return false;
      // Messages of one sender do not overtake each other.
      if (message.name.source == mine.message.source) return false;
      const bool was_there = std::ranges::any_of(node.choices, [&](const MessageChoice& choice) {
        return choice.receiver == mine.receiver && choice.message == message.name;
      });
      return !was_there && !walker.knew(message, mine);
    });
    if (!raced) continue;
    for (std::size_t choice = 0; choice < node.choices.size(); ++choice) {
      node.backtrack.insert(choice);
    }
  }
}

// Finds the deepest point with a choice left to take.
bool ReducedSearch::next() {
  while (!path_.empty()) {
    Node& node = path_.back();
    node.done.insert(node.taken);
    for (const std::size_t choice : node.backtrack) {
      if (node.done.contains(choice) || node.sleep.contains(step_of(node.choices[choice]))) {
        continue;
      }
      node.taken = choice;
      return true;
    }
    path_.pop_back();
  }
  return false;
}

// --- One exploration ---------------------------------------------------------------------------

std::optional<Explorer::Found> Explorer::explore(const Exploration& exploration) {
  if (exploration.mode == ExploreMode::dpor) {
    exhausted_ = true;
    for (const SendMode sends : {SendMode::rendezvous, SendMode::buffered}) {
      if (std::optional<Found> found = search(sends, exploration)) return found;
    }
    return std::nullopt;
  }
  for (const SendMode sends : {SendMode::rendezvous, SendMode::buffered}) {
    ListChooser chooser;
    if (std::optional<Found> found = run({.sends = sends}, chooser, 0)) return found;
  }
  return exploration.mode == ExploreMode::pct ? draw(exploration) : std::nullopt;
}

std::optional<Explorer::Found> Explorer::draw(const Exploration& exploration) {
  for (std::int64_t i = 0; i < exploration.schedules; ++i) {
    if (most_choices_ == 0 && i == kFewSchedules) break;
    RollingHash seed;
    seed.add(exploration.seed);
    seed.add(i);
    // 0 means that nothing is drawn.
    const Schedule schedule{.sends = static_cast<SendMode>(i % 3), .seed = seed.value() | 1U};
    PriorityChooser chooser(token_.ranks, exploration.depth, most_choices_, schedule.seed);
    ++num_drawn_;
    if (std::optional<Found> found = run(schedule, chooser, i + 1)) return found;
  }
  return std::nullopt;
}

std::optional<Explorer::Found> Explorer::search(SendMode sends, const Exploration& exploration) {
  std::optional<Found> found;
  std::int64_t number = 0;
  ReducedSearch reduced;
  const bool all = reduced.search(
      [&](ListChooser& chooser) {
        found = run({.sends = sends}, chooser, ++number);
        return !found;
      },
      exploration.schedules);
  num_drawn_ += number;
  exhausted_ = exhausted_ && all;
  return found;
}

std::optional<Explorer::Found> Explorer::run(const Schedule& schedule, ListChooser& chooser,
                                             std::int64_t number) {
  ReplayToken token = token_;
  token.schedule = schedule;
  Checker::Outcome outcome = checker_.run(token, chooser);
  most_choices_ = std::max(most_choices_, static_cast<std::int64_t>(outcome.decisions.size()));
  if (!outcome.failure) return std::nullopt;
  token.schedule.decisions = chooser.taken();
  Diagnosis failure = checker_.classify(token, std::move(outcome));
  failure.schedule = fmt::format("{} ranks, {} sends", token.ranks, name_of(schedule.sends));
  if (number > 0) failure.schedule += fmt::format(", schedule {}", number);
  failure.replay = to_text(token);
  return Found{.token = std::move(token), .failure = std::move(failure)};
}

}  // namespace shardsim

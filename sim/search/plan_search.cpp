#include "sim/search/plan_search.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>

#include "sim/kernel/error.hpp"

#include "sim/search/descent.hpp"
#include "sim/search/layout_bounds.hpp"
#include "sim/search/missed_layouts.hpp"
#include "sim/search/open_layouts.hpp"
#include "sim/search/simulate_layouts.hpp"

namespace shardsim {
namespace {

// Enough for the threads of a workstation, and few enough to probe or simulate little in vain.
constexpr std::size_t kBatch = 16;
// The number of bounds between two reports of progress.
constexpr std::size_t kQuickAtATime = 256;

double corner_of(const Bound& bound) {
  return static_cast<double>(bound.device_bytes) * static_cast<double>(bound.step_ps);
}

class Search {
 public:
  Search(const SearchBase& base, const SearchRequest& request, const SearchHooks& hooks)
      : base_(base),
        hooks_(hooks),
        experiment_(compile(base.scenario)),
        space_(experiment_, base.fixed),
        bounds_(base, space_,
                {.jobs_now = [this] { return jobs_now(); },
                 .is_over = [this] { return is_over(); },
                 .tell_progress = [this] { tell_progress(); }}),
        found_(experiment_, request),
        given_(base, space_, found_),
        descent_(space_, bounds_, found_, done_),
        by_rank_([this](const Bound& bound) { return found_.objective_of(bound); }),
        by_corner_(corner_of),
        misses_(bounds_, found_, done_, [this] { return is_over(); }) {}

  SearchOutcome run() {
    outcome_.num_candidates = space_.num_candidates();
    begin_with_given();
    if (hooks_.on_begin) hooks_.on_begin();
    add_all();
    if (!is_over()) {
      // The best by the objective, then those that could be on the front, from the corner on.
      visit(by_rank_);
      for (const OpenLayouts& entry : std::exchange(later_, {})) by_corner_.push(entry);
      is_ranked_ = true;
      visit(by_corner_);
      if (hooks_.prunes && !is_over() && found_.best() == nullptr) find_nearest_miss();
      if (hooks_.prunes && !is_over()) note_least_miss();
    }
    finish();
    return std::move(outcome_);
  }

 private:
  void add_all() {
    LayoutPlace at;
    std::size_t num_added = 0;
    for (at.block = 0; at.block < space_.blocks().size(); ++at.block) {
      const LayoutBlock& block = space_.blocks()[at.block];
      for (at.batch = 0; at.batch < block.batches.size(); ++at.batch) {
        const std::size_t schedules = block.batches[at.batch].schedules.size();
        for (at.schedule = 0; at.schedule < schedules; ++at.schedule) {
          if (num_added++ % kQuickAtATime == 0) {
            tell_progress();
            if (is_over()) return;
          }
          add_group({.bound = {},
                     .place = at,
                     .num_data = static_cast<std::uint32_t>(block.data.size()),
                     .index = space_.index(at)});
        }
      }
    }
    is_bounded_ = true;
  }

  // A micro-batch can be larger than any tensor may be: then each candidate's run would say so.
  void add_group(OpenLayouts group) {
    try {
      group.bound = bounds_.least(group.place);
    } catch (const LimitError& error) {
      fail(group, num_to_decide(group), error.code() + ": " + error.what());
      return;
    }
    add(group, by_rank_);
  }

  void begin_with_given() {
    given_.simulate([this] { return is_over(); });
    const SimulatedPoint* const point = given_.found();
    if (point == nullptr) return;
    outcome_.simulated.push_back(*point);
    done_.insert(given_.place());
    found_.keep(*point);
    ++num_done_;
    see(*point);
    tell_progress();
  }

  LayoutFamily family_of(const OpenLayouts& entry) const {
    const LayoutBlock& block = space_.blocks()[entry.place.block];
    return {block.tp, block.cp, block.pp};
  }
  std::size_t num_to_decide(const OpenLayouts& entry) const {
    return entry.num_data - done_.count(entry.place, entry.num_data);
  }

  // Whether the bound leaves the candidates open. If not, they are counted.
  bool stays_open(const OpenLayouts& entry) {
    const std::size_t num = num_to_decide(entry);
    if (num == 0) return false;
    if (!hooks_.prunes) return true;
    const BoundVerdict verdict = found_.judge(entry.bound, family_of(entry));
    if (verdict == BoundVerdict::slower) {
      outcome_.num_slower += num;
      given_.note_decided(entry.bound, num);
    }
    if (verdict == BoundVerdict::too_large) outcome_.num_too_large += num;
    return verdict == BoundVerdict::open;
  }

  void add(const OpenLayouts& entry, OpenQueue& queue) {
    if (stays_open(entry)) {
      queue.push(entry);
    } else if (entry.closeness == Closeness::group && found_.is_too_large(entry.bound)) {
      misses_.push(entry);
    }
  }

  // Raises the bounds of candidates; those that a stop leaves out go back to the queue.
  void add_ends(std::vector<OpenLayouts>& probed, OpenQueue& queue) {
    bounds_.add_ends(probed);
    if (!is_ranked_) look_ahead(probed, queue);
    for (const OpenLayouts& entry : std::exchange(probed, {})) {
      entry.closeness == Closeness::with_end ? add(entry, queue) : queue.push(entry);
    }
  }

  // Simulates the candidate that would rank first by its bound, at once: thousands of others may
  // have lower bounds that are not close yet. So an answer comes early, and its time prunes.
  void look_ahead(std::vector<OpenLayouts>& probed, OpenQueue& queue) {
    auto first = probed.end();
    for (auto entry = probed.begin(); entry != probed.end(); ++entry) {
      if (entry->closeness != Closeness::with_end ||
          found_.judge(entry->bound, family_of(*entry)) != BoundVerdict::open ||
          !found_.would_lead(entry->bound))
        continue;
      if (first == probed.end() || found_.leads(entry->bound, first->bound)) first = entry;
    }
    if (first == probed.end()) return;
    std::vector<OpenLayouts> alone = {*first};
    probed.erase(first);
    simulate_batch(alone, queue);
    descend();
  }

  // Simulates neighbours of the best ahead of their turn. Their groups stay in the queues.
  void descend() {
    while (!is_over()) {
      std::vector<OpenLayouts> step = descent_.next();
      if (step.empty()) return;
      OpenQueue left_in_groups(corner_of);
      simulate_batch(step, left_in_groups);
    }
  }

  // Takes groups apart, as add_ends().
  void expand(std::vector<OpenLayouts>& groups, OpenQueue& queue) {
    const std::vector<std::vector<OpenLayouts>> parts = bounds_.parts_of(groups);
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (parts[i].empty()) queue.push(groups[i]);
      add_parts(groups[i], parts[i], queue);
    }
    groups.clear();
  }

  void add_parts(const OpenLayouts& group, const std::vector<OpenLayouts>& parts,
                 OpenQueue& queue) {
    OpenLayouts missed = group;
    missed.bound.device_bytes = std::numeric_limits<std::int64_t>::max();
    for (const OpenLayouts& part : parts) {
      add(part, queue);
      if (!hooks_.prunes || part.closeness == Closeness::group || !found_.is_too_large(part.bound))
        continue;
      missed.bound.device_bytes = std::min(missed.bound.device_bytes, part.bound.device_bytes);
    }
    if (missed.bound.device_bytes < std::numeric_limits<std::int64_t>::max()) misses_.push(missed);
  }

  // Decides all candidates of a queue. Before the ranking is known, those that can only be on the
  // front are put off.
  void visit(OpenQueue& queue) {
    std::vector<OpenLayouts> groups;
    std::vector<OpenLayouts> probed;
    std::vector<OpenLayouts> batch;
    while (!is_over()) {
      // Neighbours in the queue are bounded together, on all threads.
      std::optional<Closeness> next;
      if (!queue.empty()) next = queue.closeness_of_least();
      if (!groups.empty() && (next != Closeness::group || groups.size() == kBatch)) {
        expand(groups, queue);
        continue;
      }
      if (!probed.empty() && (!next || next == Closeness::with_end || probed.size() == kBatch)) {
        add_ends(probed, queue);
        continue;
      }
      if (!next) break;
      OpenLayouts entry = queue.pop();
      const bool is_least = groups.empty() && probed.empty() && batch.empty();
      if (is_least && !is_ranked_) least_key_ = entry.key;
      if (!stays_open(entry)) continue;
      if (hooks_.prunes && !is_ranked_ && found_.is_below_best(entry.bound, family_of(entry))) {
        later_.push_back(entry);
      } else if (entry.closeness == Closeness::group) {
        groups.push_back(entry);
      } else if (hooks_.prunes && entry.closeness == Closeness::one) {
        probed.push_back(entry);
      } else {
        batch.push_back(entry);
        if (batch.size() == kBatch) simulate_batch(batch, queue);
      }
    }
    for (const auto& left : {groups, probed}) {
      for (const OpenLayouts& entry : left) queue.push(entry);
    }
    simulate_batch(batch, queue);
  }

  // Whether the search is to end; once it is, it stays so. From any thread.
  bool is_over() {
    if (stop_ != SearchStop::none) return true;
    const SearchStop asked = hooks_.stop ? hooks_.stop() : SearchStop::none;
    if (asked != SearchStop::none) stop_ = asked;
    return asked != SearchStop::none;
  }

  [[nodiscard]] int jobs_now() const {
    return hooks_.jobs_now ? std::clamp(hooks_.jobs_now(), 1, hooks_.jobs) : hooks_.jobs;
  }

  // Candidates whose simulation was abandoned go back to the queue.
  void simulate_batch(std::vector<OpenLayouts>& batch, OpenQueue& queue) {
    std::erase_if(batch, [this](const OpenLayouts& entry) { return num_to_decide(entry) == 0; });
    const std::vector<std::optional<Simulation>> runs =
        simulate_layouts(base_, space_, batch,
                         {.jobs = hooks_.jobs,
                          .jobs_now = [this] { return jobs_now(); },
                          .is_over = [this] { return is_over(); },
                          .finished =
                              [this](const Simulation& run) {
                                ++num_done_;
                                see(run.point);
                                tell_progress();
                              }});
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (runs[i]) {
        settle(batch[i], *runs[i]);
      } else {
        queue.push(batch[i]);
      }
    }
    batch.clear();
  }

  void settle(const OpenLayouts& entry, const Simulation& run) {
    done_.insert(entry.place);
    if (run.point) {
      outcome_.simulated.push_back(*run.point);
      found_.keep(*run.point);
      return;
    }
    if (run.failure.empty()) {
      ++outcome_.num_refused;
    } else {
      fail(entry, 1, run.failure);
    }
  }

  // `num` candidates from the entry's place on.
  void fail(const OpenLayouts& entry, std::size_t num, const std::string& failure) {
    outcome_.num_failed += num;
    if (num == 0 || entry.index >= first_failed_) return;
    first_failed_ = entry.index;
    outcome_.first_failure = failure;
    outcome_.failed = space_.candidate(entry.place);
  }

  // For the progress alone: what counts is settled between batches.
  void see(const std::optional<SimulatedPoint>& point) {
    if (!point || !point->fits) return;
    if (!seen_ || ranks_before(*point, *seen_, found_.objective())) seen_ = point;
  }

  void tell_progress() {
    if (!hooks_.on_progress) return;
    SearchProgress progress{num_done_, seen_, {}, is_missed_};
    if (seen_ && is_ranked_) progress.gap = 0;
    if (seen_ && !is_ranked_) progress.gap = gap_of(found_.objective_of(*seen_), least_key_);
    hooks_.on_progress(progress);
  }

  // Finds the candidate that needs least memory if all are too large. It simulates in the order of
  // the bounds, until the remaining bounds are above the simulated memory.
  void find_nearest_miss() {
    std::vector<OpenLayouts> batch;
    OpenLayouts miss;
    note_least_miss();  // A stopped search has this bound.
    is_missed_ = true;
    while (true) {
      std::int64_t least = std::numeric_limits<std::int64_t>::max();
      for (const auto& point : outcome_.simulated) least = std::min(least, point.device_bytes);
      while (batch.size() < kBatch && misses_.next(least, miss)) batch.push_back(miss);
      if (batch.empty() || is_over()) return;
      const std::size_t before =
          outcome_.simulated.size() + outcome_.num_refused + outcome_.num_failed;
      simulate_batch(batch, misses_.queue());
      outcome_.num_too_large -=
          outcome_.simulated.size() + outcome_.num_refused + outcome_.num_failed - before;
    }
  }

  void note_least_miss() {
    OpenLayouts miss;
    outcome_.least_bytes = 0;
    if (!misses_.next(std::numeric_limits<std::int64_t>::max(), miss)) return;
    outcome_.least_bytes = miss.bound.device_bytes;
    outcome_.least = space_.candidate(miss.place);
    misses_.push(miss);
  }

  void finish() {
    std::ranges::sort(outcome_.simulated, {}, &SimulatedPoint::index);
    outcome_.stop = stop_;
    const SimulatedPoint* best = found_.best();
    if (best != nullptr) outcome_.lower_bound = found_.objective_of(*best);
    for (OpenQueue* queue : {&by_rank_, &by_corner_}) {
      for (const OpenLayouts& entry : queue->take_all()) note_open(entry);
    }
    for (const OpenLayouts& entry : later_) note_open(entry);
    outcome_.num_open = outcome_.num_candidates - outcome_.simulated.size() - outcome_.num_slower -
                        outcome_.num_too_large - outcome_.num_refused - outcome_.num_failed;
    outcome_.given = given_.ranked(outcome_.simulated, outcome_.num_slower + outcome_.num_open);
    if (!is_bounded_) outcome_.lower_bound.reset();
    if (best == nullptr || !outcome_.lower_bound) return;
    outcome_.gap = gap_of(found_.objective_of(*best), *outcome_.lower_bound);
  }

  // Lowers the bound by what is still open.
  void note_open(const OpenLayouts& entry) {
    if (!stays_open(entry)) return;
    given_.note_decided(entry.bound, num_to_decide(entry));
    if (found_.is_behind_by_margin(entry.bound)) return;
    const double least = found_.objective_of(entry.bound);
    outcome_.lower_bound = std::min(outcome_.lower_bound.value_or(least), least);
  }

  const SearchBase& base_;
  const SearchHooks& hooks_;
  const Experiment experiment_;
  const LayoutSpace space_;
  LayoutBounds bounds_;
  FoundLayouts found_;
  GivenRank given_;
  DoneLayouts done_;
  Descent descent_;
  OpenQueue by_rank_;
  OpenQueue by_corner_;
  MissedLayouts misses_;
  std::vector<OpenLayouts> later_;  // Candidates that can only be on the front.
  bool is_bounded_ = false;         // All candidates are in a queue, or decided.
  bool is_ranked_ = false;          // The best are known.
  bool is_missed_ = false;
  std::atomic<SearchStop> stop_ = SearchStop::none;
  double least_key_ = 0;  // By rank: nothing that is open has a lower one.
  std::optional<SimulatedPoint> seen_;
  std::size_t num_done_ = 0;
  std::size_t first_failed_ = std::numeric_limits<std::size_t>::max();
  SearchOutcome outcome_;
};

}  // namespace

SearchOutcome search(const SearchBase& base, const SearchRequest& request,
                     const SearchHooks& hooks) {
  return Search(base, request, hooks).run();
}

}  // namespace shardsim

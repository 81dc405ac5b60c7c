#include "sim/question/search_turns.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace shardsim {

bool is_decided(const SearchProgress& progress) {
  return progress.fits_none || (progress.best && is_proven(*progress.best, progress.gap));
}

SearchTurns::SearchTurns(std::size_t count, const Limits& limits, std::function<double()> seconds)
    : limits_(limits), seconds_(std::move(seconds)), turns_(count) {
  for (std::size_t search = 0; search < count; ++search) waiting_.push_back(search);
}

bool SearchTurns::lasts(const Turn& turn) const {
  const double used_s = seconds_() - turn.begin_s;
  if (turn.is_first && !turn.state.progress.best) return used_s < limits_.first_turn_s;
  return used_s < limits_.turn_s;
}

bool SearchTurns::begins(std::size_t search) {
  if (num_working_ >= limits_.jobs || waiting_.front() != search) return false;
  waiting_.pop_front();
  ++num_working_;
  turns_[search].is_working = true;
  turns_[search].begin_s = seconds_();
  changed_.notify_all();
  return true;
}

void SearchTurns::end(Turn& turn) {
  turn.is_working = false;
  turn.is_first = false;
  --num_working_;
  changed_.notify_all();
}

void SearchTurns::wait(std::size_t search, const std::function<bool()>& is_over) {
  std::unique_lock lock(mutex_);
  Turn& turn = turns_[search];
  if (turn.is_working) {
    if (lasts(turn)) return;
    if (waiting_.empty()) {
      turn.begin_s = seconds_();
      turn.is_first = false;
      return;
    }
    end(turn);
    waiting_.push_back(search);
  }
  // Nothing else wakes a search that is over.
  constexpr std::chrono::milliseconds kPoll(20);
  while (!begins(search)) {
    lock.unlock();  // The caller's answer may take its time, and may depend on other searches.
    const bool ends = is_over();
    lock.lock();
    if (ends || begins(search)) return;
    changed_.wait_for(lock, kPoll);
  }
}

void SearchTurns::note(std::size_t search, const SearchState& state) {
  const std::lock_guard lock(mutex_);
  turns_[search].state = state;
  turns_[search].is_decided = is_decided(state.progress);
}

int SearchTurns::jobs_of(std::size_t search) const {
  const std::lock_guard lock(mutex_);
  const auto left = static_cast<int>(turns_.size() - num_left_);
  const auto before = std::count_if(turns_.begin(), turns_.begin() + static_cast<long>(search),
                                    [](const Turn& turn) { return !turn.has_left; });
  const int share = limits_.jobs / std::max(left, 1);
  return std::max(1, share + (before < limits_.jobs % std::max(left, 1) ? 1 : 0));
}

SearchState SearchTurns::state_of(std::size_t search) const {
  const std::lock_guard lock(mutex_);
  return turns_[search].state;
}

void SearchTurns::leave(std::size_t search) {
  const std::lock_guard lock(mutex_);
  std::erase(waiting_, search);
  if (turns_[search].is_working) end(turns_[search]);
  turns_[search].is_first = false;
  turns_[search].has_left = true;
  ++num_left_;
  changed_.notify_all();
}

bool SearchTurns::all_left() const {
  constexpr std::chrono::milliseconds kMoment(50);
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kMoment, [this] { return num_left_ == turns_.size(); });
}

bool SearchTurns::all_had_a_turn() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::none_of(turns_, &Turn::is_first);
}

}  // namespace shardsim

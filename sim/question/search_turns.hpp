#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "sim/search/plan_search.hpp"

// Many searches share few cores in turns, so that each has an answer early and all get better
// together. A search that waits keeps all that it knows.
namespace shardsim {

/// The state of a search that goes on.
struct SearchState {
  SearchProgress progress;
  std::string no_layout;  ///< Why there is none to search; empty if there are.
};

/// Whether nothing that is left to search can change the row of its machine.
[[nodiscard]] bool is_decided(const SearchProgress& progress);

class SearchTurns {
 public:
  struct Limits {
    int jobs = 1;               ///< Cores, and the most searches that work at the same time.
    double turn_s = 1.0;        ///< The length of a turn while others wait.
    double first_turn_s = 4.0;  ///< The most of a search's first turn, which ends with a find.
  };

  /// `seconds`: a clock; any thread reads it.
  SearchTurns(std::size_t count, const Limits& limits, std::function<double()> seconds);

  /// Returns at once while the search's turn lasts; else when it has the next one, or when
  /// `is_over` says so. Each search calls it from one thread, often.
  void wait(std::size_t search, const std::function<bool()>& is_over);
  /// The knowledge of the search so far; with a find its first turn may end.
  void note(std::size_t search, const SearchState& state);
  [[nodiscard]] SearchState state_of(std::size_t search) const;
  /// Whether the knowledge so far decides it: cheap enough to ask at each step.
  [[nodiscard]] bool has_decided(std::size_t search) const { return turns_[search].is_decided; }
  /// The cores that a search may use while it works: all cores are shared by those that have not
  /// ended, and the first of them get what is left over.
  [[nodiscard]] int jobs_of(std::size_t search) const;
  /// The search has ended. Only its state is asked for after this.
  void leave(std::size_t search);

  /// Whether each search had its first turn.
  [[nodiscard]] bool all_had_a_turn() const;
  /// Whether each search has ended. Waits a moment for that, so that the caller may ask in a loop.
  [[nodiscard]] bool all_left() const;

 private:
  struct Turn {
    bool is_working = false;
    bool is_first = true;
    bool has_left = false;
    std::atomic<bool> is_decided = false;
    double begin_s = 0;
    SearchState state;
  };

  [[nodiscard]] bool lasts(const Turn& turn) const;
  // Makes the search work, if it is the next one and there is room.
  [[nodiscard]] bool begins(std::size_t search);
  void end(Turn& turn);

  const Limits limits_;
  const std::function<double()> seconds_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<Turn> turns_;
  std::deque<std::size_t> waiting_;
  int num_working_ = 0;
  std::size_t num_left_ = 0;
};

}  // namespace shardsim

#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

// Many searches share few cores in turns, so that each has an answer early and all get better
// together. A search that waits keeps all that it knows.
namespace shardsim {

class SearchTurns {
 public:
  struct Limits {
    int at_a_time = 1;          ///< Searches that work at the same time.
    double turn_s = 1.0;        ///< The length of a turn while others wait.
    double first_turn_s = 4.0;  ///< The most of a search's first turn, which ends with a find.
  };

  /// `seconds`: a clock; any thread reads it.
  SearchTurns(std::size_t count, const Limits& limits, std::function<double()> seconds);

  /// Returns at once while the search's turn lasts; else when it has the next one, or when
  /// `is_over` says so. Each search calls it from one thread, often.
  void wait(std::size_t search, const std::function<bool()>& is_over);
  /// The search has found a layout: its first turn may end.
  void note_find(std::size_t search);
  /// The search has ended. No other calls for it come after this one.
  void leave(std::size_t search);

  /// Whether each search had its first turn.
  [[nodiscard]] bool all_had_a_turn() const;

 private:
  struct Turn {
    bool is_working = false;
    bool is_first = true;
    bool has_find = false;
    double begin_s = 0;
  };

  [[nodiscard]] bool lasts(const Turn& turn) const;
  // Makes the search work, if it is the next one and there is room.
  [[nodiscard]] bool begins(std::size_t search);
  void end(Turn& turn);

  const Limits limits_;
  const std::function<double()> seconds_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Turn> turns_;
  std::deque<std::size_t> waiting_;
  int num_working_ = 0;
};

}  // namespace shardsim

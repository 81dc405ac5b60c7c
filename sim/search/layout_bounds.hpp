#pragma once

#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "sim/search/open_layouts.hpp"
#include "sim/search/search_request.hpp"

// The bounds of a search's layouts, found on all threads. They do not depend on which thread finds
// them.
namespace shardsim {

class LayoutBounds {
 public:
  struct Hooks {
    std::function<int()> jobs_now;        ///< Threads that may work, at least 1.
    std::function<bool()> is_over;        ///< Called by any thread: nothing more is bounded.
    std::function<void()> tell_progress;  ///< Called by one thread at a time.
  };

  /// The arguments outlive it. One of its calls runs at a time.
  LayoutBounds(const SearchBase& base, const LayoutSpace& space, Hooks hooks);
  ~LayoutBounds();

  /// The bound of a whole block's choices of data, with one batch and schedule.
  [[nodiscard]] Bound least(const LayoutPlace& place);

  /// For each group its parts: groups with one ep each, or of such a group its candidates. None for
  /// a group that a stop leaves out.
  [[nodiscard]] std::vector<std::vector<OpenLayouts>> parts_of(std::span<const OpenLayouts> groups);

  /// Raises the bounds of candidates by the ends of their steps. One that cannot run keeps its
  /// bound: its run reports the error. Those that a stop leaves out keep their closeness.
  void add_ends(std::span<OpenLayouts> candidates);

 private:
  class Prober;

  /// `work` is called once for each index, from several threads.
  void for_each(std::size_t count, const std::function<void(Prober&, std::size_t)>& work);

  const SearchBase& base_;
  const LayoutSpace& space_;
  Hooks hooks_;
  std::deque<Prober> probers_;  // One for each thread that ever worked.
};

}  // namespace shardsim

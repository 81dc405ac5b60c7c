#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/search/found_layouts.hpp"
#include "sim/search/given_rank.hpp"
#include "sim/search/search_request.hpp"

// Simulates the candidates that could matter, and proves that all others cannot. It may be stopped
// at any time: then it has the best so far, and a proven bound on what is left.
namespace shardsim {

/// Why a search ended before it was complete.
enum class SearchStop : std::uint8_t { none, time_limit, interrupt };

/// Candidates by their fate: the simulated and the counts below add up to num_candidates.
struct SearchCounts {
  std::size_t num_candidates = 0;
  std::size_t num_slower = 0;     ///< Not simulated: neither among the best nor on the front.
  std::size_t num_too_large = 0;  ///< Not simulated: the bound exceeds the memory.
  std::size_t num_refused = 0;    ///< Refused by the scenario's reader.
  std::size_t num_failed = 0;     ///< Legal, but the run ended early: deadlock, a limit exceeded.
  std::string first_failure;      ///< Its code and words, for the failed layout of lowest index.
  std::size_t num_open = 0;       ///< Not decided when the search was stopped.
  SearchStop stop = SearchStop::none;
  /// A bound on the objective (seconds, or bytes) of all open candidates that could rank first.
  /// If the search is complete: the best's own. Empty: not known, or there is no such candidate.
  std::optional<double> lower_bound;
  /// gap_of() the best and that bound; empty without one of them.
  std::optional<double> gap;
};

struct SearchOutcome : SearchCounts {
  std::vector<SimulatedPoint> simulated;  ///< By index.
  Candidate failed;                       ///< The failed layout of lowest index.
  /// The smallest need among candidates that are too large to run; 0: there is none, or the search
  /// was stopped.
  std::int64_t least_bytes = 0;
  Candidate least;
  std::optional<GivenOutcome> given;  ///< If the search has a given layout.
};

struct SearchProgress {
  std::size_t simulated = 0;
  std::optional<SimulatedPoint> best;  ///< The layout that ranks first.
  std::optional<double> gap;           ///< 0: it is proven to be the best.
  bool fits_none = false;              ///< None fits, and the least need is bounded.
};

struct SearchHooks {
  int jobs = 1;
  /// How many of the jobs may work now, at least 1; asked by any thread, often. Null: all.
  std::function<int()> jobs_now;
  /// Called by one thread at a time.
  std::function<void(const SearchProgress& progress)> on_progress;
  /// Called once, when the given layout is simulated and the search begins. Null: never.
  std::function<void()> on_begin;
  /// Called by any thread, also during simulations: they are abandoned, and their candidates stay
  /// open. Null: never.
  std::function<SearchStop()> stop;
  /// Whether bounds decide which candidates are simulated; false: all legal ones are.
  bool prunes = true;
};

/// The result of a search that is not stopped is the same for any number of jobs: the candidates to
/// simulate are chosen between batches of fixed size. Each other candidate does not fit the device,
/// or it is strictly worse than a simulated one of its family, or than those of `request.top`
/// families, and off the front: strictly dominated in (time, memory) by a simulated one, or slower
/// than the front reaches. Memory is that of the device. If nothing fits, the candidate that needs
/// least memory is among the simulated.
[[nodiscard]] SearchOutcome search(const SearchBase& base, const SearchRequest& request,
                                   const SearchHooks& hooks);

}  // namespace shardsim

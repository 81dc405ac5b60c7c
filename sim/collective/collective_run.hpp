#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "sim/collective/collective_trial.hpp"
#include "sim/real/rank_report.hpp"
#include "sim/run/run.hpp"

namespace shardsim {

/// One size: the joint result of all ranks.
struct TestedSize {
  std::int64_t size = 0;   ///< Bytes of the larger buffer.
  std::int64_t count = 0;  ///< ElementCounts::argument.
  TrialResult found;       ///< Times: average over ranks. Wrong elements and bytes: their sum.
  /// The simulation's values, if the row is measured.
  std::optional<double> simulated_seconds;
  std::optional<std::int64_t> simulated_sent_bytes;
};

/// All there is to print.
struct CollectiveRun {
  std::vector<TestedSize> rows;
  std::int64_t sent_bytes = 0;     ///< In all, by own count; warm-up and checks included.
  std::optional<SentTotals> wire;  ///< The same, as the library below counts.
  bool wire_is_exact = false;      ///< Then both must be equal.
  std::string library;             ///< Name of the real backend's library; else empty.
  std::vector<std::string> notes;
  bool times_mean_nothing = false;  ///< Ranks share GPUs or cores.
};

/// The row of ranks that each found something at `size`.
[[nodiscard]] TestedSize row_of(const CollectiveSetting& setting, std::int64_t size,
                                const std::vector<TrialResult>& by_rank);

/// Runs in virtual time. If results are checked, data are moved once besides.
[[nodiscard]] CollectiveRun simulate_collectives(const CollectiveSetting& setting,
                                                 const RunHooks& hooks);

/// Adds the simulation's values to measured rows.
void add_simulation(const CollectiveSetting& setting, CollectiveRun& run);

/// Runs on one process per rank; times by the wall clock. Nothing: another process reports, or the
/// run has failed (reported on `err`); the caller returns `exit_code`.
[[nodiscard]] std::optional<CollectiveRun> measure_collectives(const CollectiveSetting& setting,
                                                               const ProcessOptions& options,
                                                               const RunHooks& hooks,
                                                               int& exit_code, std::ostream& err);

}  // namespace shardsim

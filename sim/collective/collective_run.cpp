#include "sim/collective/collective_run.hpp"

#include <algorithm>

namespace shardsim {

CollectiveRow row_of(const CollectiveSetting& setting, std::int64_t size,
                     const std::vector<TrialResult>& by_rank) {
  CollectiveRow row;
  const ElementCounts counts = setting.counts(size);
  row.size = std::max(counts.send, counts.receive) * size_of(setting.dtype);
  row.count = counts.argument;
  for (const TrialResult& rank : by_rank) {
    row.found.sent_bytes += rank.sent_bytes;
    for (std::size_t i = 0; i < rank.places.size(); ++i) {
      const TrialResult::Place& place = rank.places[i];
      TrialResult::Place& sum = row.found.places[i];
      if (place.seconds) {
        sum.seconds =
            sum.seconds.value_or(0.0) + *place.seconds / static_cast<double>(by_rank.size());
      }
      if (place.wrong) sum.wrong = sum.wrong.value_or(0) + *place.wrong;
    }
  }
  return row;
}

void add_simulation(const CollectiveSetting& setting, CollectiveRun& run) {
  CollectiveSetting times_only = setting;
  times_only.checks = 0;
  times_only.iterations = 1;
  const CollectiveRun simulated = simulate_collectives(times_only, {});
  for (std::size_t i = 0; i < run.rows.size(); ++i) {
    const TrialResult& found = simulated.rows[i].found;
    // The same in both places, where there are both.
    for (const TrialResult::Place& place : found.places) {
      if (place.seconds) run.rows[i].simulated_seconds = place.seconds;
    }
    run.rows[i].simulated_sent_bytes = found.sent_bytes;
  }
}

}  // namespace shardsim

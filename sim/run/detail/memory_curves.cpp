#include "sim/run/detail/memory_curves.hpp"

#include <algorithm>

namespace shardsim {

namespace {

// For all curves of a page together: with very many stages each gets fewer points.
constexpr std::size_t kMostPoints = 32'000;
constexpr std::size_t kFewestPoints = 100;

}  // namespace

std::vector<MemoryCurve> memory_curves(const WatchedRun& watched, const std::vector<int>& ranks,
                                       Time origin, std::vector<std::string>& notes) {
  const std::size_t most = std::clamp(kMostPoints / ranks.size(), kFewestPoints, kMaxMemoryPoints);
  bool has_thinned = false;
  std::vector<MemoryCurve> curves;
  for (std::size_t stage = 0; stage < ranks.size(); ++stage) {
    RankRecorder& recorder = watched.of(ranks[stage]);
    MemoryCurve curve{
        .stage = static_cast<std::int64_t>(stage), .rank = ranks[stage], .points = {}};
    std::vector<TimedUse> points = recorder.take_memory();
    has_thinned = has_thinned || recorder.has_thinned_memory() || points.size() > most;
    for (const TimedUse& point : CurveThinner::thinned(std::move(points), most)) {
      curve.points.push_back({(point.time - origin).seconds(), point.bytes});
    }
    curves.push_back(std::move(curve));
  }
  if (has_thinned) {
    notes.emplace_back(
        "Memory over time is thinned: of neighbouring moments those with more in use are shown.");
  }
  return curves;
}

}  // namespace shardsim

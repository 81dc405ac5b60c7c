#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "scenarios/sweep_block.hpp"
#include "sim/sweep/part_file.hpp"

// The results of a sweep on one screen: the status of its points, the best of each objective, and
// those that no other point beats in all of them.
namespace shardsim {

/// The scores of a point with status ok.
struct ScoredPoint {
  std::size_t point = 0;
  std::vector<std::string> values;  ///< By column, as JSON texts.
  std::vector<double> scores;       ///< By objective.
};

/// The error bands of one metric that points have from one group of measured runs, in shares of
/// what the model says.
struct SweepBand {
  std::string metric;
  std::string group;
  std::string held;  ///< "80 % of runs".
  double low = 0.0;
  double centre = 0.0;
  double high = 0.0;
  std::size_t points = 0;
};

/// Points that ended with one code.
struct ReasonCount {
  std::size_t count = 0;
  std::size_t point = 0;  ///< The first of them,
  std::string message;    ///< and its message.
};

struct SweepFindings {
  std::array<std::size_t, 4> counts{};                          ///< By PointStatus.
  std::array<std::map<std::string, ReasonCount>, 4> reasons{};  ///< Then by code; none of ok.
  std::vector<ScoredPoint> scored;  ///< Those with all objectives' metrics, ascending.
  std::vector<SweepBand> bands;     ///< Those of the scored points; empty if none has one.
};

/// The objectives of the sweep, by default throughput and memory.
[[nodiscard]] std::vector<SweepObjective> objectives_of(const SweepBlock& block);

[[nodiscard]] SweepFindings find_best(const PointIndex& index,
                                      const std::vector<std::string>& columns,
                                      const std::vector<SweepObjective>& objectives);

/// Places in `scored` of the points that no other point dominates: at least as good in every
/// objective and better in one. The best of the first objective comes first.
[[nodiscard]] std::vector<std::size_t> pareto_front(const std::vector<ScoredPoint>& scored,
                                                    const std::vector<SweepObjective>& objectives);

/// Counts a point's bands.
void add_bands(SweepFindings& findings, const PointRow& row);

/// Where measured runs like the points lie, a line for each group: tables have the model's numbers.
[[nodiscard]] std::string bands_text(const SweepFindings& findings);

/// Tables of at most 100 columns, and the lines of bands.
[[nodiscard]] std::string summary_text(const SweepFindings& findings,
                                       const std::vector<std::string>& columns,
                                       const std::vector<SweepObjective>& objectives);

}  // namespace shardsim

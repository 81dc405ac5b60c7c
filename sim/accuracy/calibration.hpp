#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/hardware/cluster.hpp"

#include "scenarios/scenario.hpp"
#include "sim/accuracy/nccl_tests_table.hpp"
#include "sim/collective/collective_setting.hpp"

// Fits a bandwidth factor f and an added latency a to
//   measured = latency + a + transfer / f,
// by medians, which a few bad sizes do not move. 1 / f is the median of (measured - latency - a) /
// transfer over the large sizes; a is that of measured - latency - transfer / f over the small
// ones. Both are computed in turn until neither changes. The sizes between are not used: there
// NCCL's own model is a table of fudges.
//
// All tables of a calibration give a correction of each tier, and how far off the model is with and
// without it.
namespace shardsim {

/// One size, in microseconds: the two parts of NCCL's model, and the measurement.
struct CalibrationPoint {
  double latency_us = 0.0;
  double transfer_us = 0.0;
  double measured_us = 0.0;
};

/// At least this many times as long as the other part is.
inline constexpr double kDominates = 2.0;
[[nodiscard]] bool is_large(const CalibrationPoint& point);
[[nodiscard]] bool is_small(const CalibrationPoint& point);

/// The parts that are fitted; the others stay as the system has them.
struct FittedParts {
  bool bandwidth = true;
  bool latency = true;
};

/// How many points there are for each part.
struct PointCounts {
  std::size_t large = 0;
  std::size_t small = 0;

  /// Whether each part that is fitted has `least` of its own.
  [[nodiscard]] bool suffice(const FittedParts& parts, std::size_t least) const;
};
[[nodiscard]] PointCounts count_points(const std::vector<CalibrationPoint>& points);

struct FittedCorrection {
  double bandwidth_factor = 1.0;
  double added_latency_us = 0.0;
  bool operator==(const FittedCorrection&) const = default;

  [[nodiscard]] double predict(const CalibrationPoint& point) const {
    return point.latency_us + added_latency_us + point.transfer_us / bandwidth_factor;
  }
};

/// A part that is not fitted equals that of `given` in every bit; a fitted part ignores `given`. A
/// fitted latency is kLeastAddedLatency or more. REQUIRES: suffice() with 1. The factor may be
/// anything, also below 0, if measurements and model have nothing in common.
[[nodiscard]] FittedCorrection fit_correction(const std::vector<CalibrationPoint>& points,
                                              const FittedParts& parts,
                                              const FittedCorrection& given = {});

/// Rounded to the written digits: four behind the point, and two. A part that is not fitted stays.
[[nodiscard]] FittedCorrection rounded(const FittedCorrection& correction,
                                       const FittedParts& parts = {});

/// Mean of |predicted / measured - 1|, 0 for no points.
[[nodiscard]] double mean_error(const std::vector<CalibrationPoint>& points,
                                const FittedCorrection& correction);

enum class NetworkTier : std::uint8_t { inside, between };
inline constexpr std::array kNetworkTiers = {NetworkTier::inside, NetworkTier::between};
/// "within a node", "between nodes".
[[nodiscard]] const char* words_of(NetworkTier tier);

/// Rows of one table, priced.
struct PricedTable {
  NcclTestsTable table;
  TestedLayout layout;
  NetworkTier tier = NetworkTier::inside;
  std::vector<CalibrationPoint> points;  ///< By size, ascending.
};

/// The prices of NCCL's model for an operation by all ranks of a cluster, one per size. They leave
/// out the corrections of the cluster's overrides, and use the algorithms and protocols that these
/// allow. Sizes are those of nccl-tests: bytes of the larger buffer of a rank. Measured times are
/// left 0. REQUIRES: cluster.nccl, two ranks or more.
[[nodiscard]] std::vector<CalibrationPoint> price_sizes(const Cluster& cluster,
                                                        TestedOperation operation,
                                                        const std::vector<std::int64_t>& sizes);

/// Errors are means of |predicted / measured - 1|.
struct CalibratedTable {
  double before = 0.0;  ///< With the system as given.
  double after = 0.0;
  double held_out = 0.0;  ///< With fits to every other size of all tables, at the sizes between.
  std::optional<FittedCorrection>
      alone;  ///< The correction from this table alone, if there is one.
};

struct TierCalibration {
  NetworkTier tier = NetworkTier::inside;
  FittedCorrection given;  ///< The correction that the system has already.
  FittedCorrection correction;
  std::vector<std::size_t> tables;      ///< Places in the list given.
  std::vector<CalibratedTable> errors;  ///< The errors of these tables.
};

/// The corrections of both tiers before any fit.
struct GivenCorrections {
  FittedCorrection inside;
  FittedCorrection between;

  [[nodiscard]] const FittedCorrection& of(NetworkTier tier) const {
    return tier == NetworkTier::inside ? inside : between;
  }
};

/// Each part of a fit needs twice this many sizes: half of them are held out in turn.
inline constexpr std::size_t kLeastSizes = 2;

/// Throws UsageError E0948 if a tier has too few sizes, with the command to run, and E0951 if no
/// factor fits.
[[nodiscard]] std::vector<TierCalibration> calibrate(const std::vector<PricedTable>& tables,
                                                     const FittedParts& parts,
                                                     const GivenCorrections& given = {});

/// All there is to print. The objects that it refers to outlive it.
struct CalibrationReport {
  const Cluster& cluster;    ///< The cluster of any table: its name and NCCL platform are shown.
  const NetworkSpec& given;  ///< The network before the fit, and the sources of its numbers.
  const std::vector<NumberSource>& sources;
  const std::vector<PricedTable>& tables;
  const std::vector<TierCalibration>& tiers;
  FittedParts parts;
  std::string out;  ///< The file that overlay_text() goes to; empty: none.
};

/// Tables, notes, errors with and without the corrections, and how to use these.
[[nodiscard]] std::string calibration_text(const CalibrationReport& report);

/// The value of system.nccl, with comments that say where it comes from.
[[nodiscard]] std::string overlay_text(const CalibrationReport& report);

}  // namespace shardsim

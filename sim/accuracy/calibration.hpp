#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/hardware/cluster.hpp"

#include "sim/accuracy/fit_correction.hpp"
#include "sim/accuracy/nccl_tests_table.hpp"
#include "sim/accuracy/tested_layout.hpp"
#include "sim/collective/tested_operation.hpp"

// All tables of a calibration: which correction of which tier they give, and how far off the model
// is with and without it.
namespace shardsim {

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

}  // namespace shardsim

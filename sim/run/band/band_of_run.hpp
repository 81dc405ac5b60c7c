#pragma once

#include <array>
#include <optional>
#include <string>

#include "reports/result.hpp"
#include "sim/experiment/experiment.hpp"
#include "sim/run/band/error_band.hpp"
#include "sim/run/band/measured_errors.hpp"

namespace shardsim {

[[nodiscard]] RunSetting run_setting_of(const Experiment& experiment);

/// The basis of the bands around one metric: the rows predicted like the run, their bands'
/// widening, and the share of rows from unseen tables that the bands then hold.
struct BandBasis {
  MeasuredRows rows;
  double widening = 1.0;
  std::optional<double> held_out_share;  ///< None for fewer than two tables.
};

/// The metrics with bands: step time and memory on the device.
inline constexpr std::size_t kNumBanded = 2;
struct BandBases {
  std::array<BandBasis, kNumBanded> with_framework;
  std::array<BandBasis, kNumBanded> without;
};

/// The result points into `known`.
[[nodiscard]] BandBases band_bases_of(const MeasuredErrors& known);

/// Why predictions of this experiment cannot be compared with measurements, in one sentence without
/// a full stop. It names the field whose value no measured run has. Empty if they can.
[[nodiscard]] std::string why_no_band(const Experiment& experiment);

/// Adds bands around the step time and the memory on the device, or why there are none. No band is
/// added if no held-out share says how reliable it is. Nothing is added if the result has no step
/// time.
void add_error_bands(const Experiment& experiment, const BandBases& bases, Result& result);

/// From the errors that the program was built with.
void add_error_bands(const Experiment& experiment, Result& result);

}  // namespace shardsim

#pragma once

#include <array>
#include <optional>
#include <string>

#include "reports/result.hpp"
#include "sim/app/band/error_band.hpp"
#include "sim/app/band/measured_error.hpp"
#include "sim/app/band/measured_errors.hpp"
#include "sim/experiment/experiment.hpp"

namespace shardsim {

[[nodiscard]] RunSetting run_setting_of(const Experiment& experiment);

/// What bands about one metric are made from: rows that were predicted as the run is, how much
/// bands of them are widened, and how many rows of tables that they do not know they then hold.
struct BandBasis {
  MeasuredRows rows;
  double widening = 1.0;
  std::optional<double> held_out_share;  ///< None of fewer than two tables.
};

/// Of step time and of memory on the device.
inline constexpr std::size_t kNumBanded = 2;
struct BandBases {
  std::array<BandBasis, kNumBanded> with_framework;
  std::array<BandBasis, kNumBanded> without;
};

/// They point into `known`.
[[nodiscard]] BandBases band_bases_of(const MeasuredErrors& known);

/// Bands about the step time and the memory on the device, or why there are none (why_no_band.hpp).
/// None where no held-out share says how far a band can be believed. Nothing if the result has no
/// step time.
void add_error_bands(const Experiment& experiment, const BandBases& bases, Result& result);

/// From the errors that the program was built with.
void add_error_bands(const Experiment& experiment, Result& result);

}  // namespace shardsim

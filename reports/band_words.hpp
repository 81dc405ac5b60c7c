#pragma once

#include <string>

#include "reports/result.hpp"

// An error band in words, the same on every page that shows one.
namespace shardsim {

/// "1.92 to 2.55 s", "980 ms to 1.20 s".
[[nodiscard]] std::string band_range(const MetricBand& band);

/// The runs behind the band, and their GPU counts if this run's lies outside them:
/// "54 measured, 51 on h100-sxm, any framework, up to 512 GPUs".
[[nodiscard]] std::string band_evidence(const MetricBand& band, const Result& result);

/// "8 of 10 runs": the held-out runs that lie within such bands, not the runs that the bands are
/// made from.
[[nodiscard]] std::string band_held(const MetricBand& band);

}  // namespace shardsim

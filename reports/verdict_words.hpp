#pragma once

#include <cstddef>
#include <string>

#include "reports/result.hpp"

// The outcome of a run and its error bands in words, the same on every page that shows them. Names
// in expectations come from users: callers escape them.
namespace shardsim {

/// "1 check", "2 checks".
[[nodiscard]] std::string count_of(std::size_t count, const char* noun);

/// In the unit that the metric's name promises.
[[nodiscard]] std::string format_metric(const std::string& name, double value);

/// "mfu >= 0.38: 0.387". With " by the model" behind it where a page of this result shows the
/// centre of a band instead: expectations judge what was simulated.
[[nodiscard]] std::string expectation_text(const ExpectationResult& row, const Result& result);

/// "OK", "FAILED: 2 checks", "DOES NOT FIT".
[[nodiscard]] std::string verdict_text(const Result& result);

// An error band.

/// "about 2.2 s": its centre, which is the headline of every page that has a band.
[[nodiscard]] std::string band_centre(const MetricBand& band);

/// "by the model 2.01 s", what was simulated. Outside the band it is followed by " (outside that
/// range: this group's bias is -12 %)".
[[nodiscard]] std::string by_the_model(const MetricBand& band, double simulated);
/// The same without "by the model".
[[nodiscard]] std::string simulated_words(const MetricBand& band, double simulated);

/// "1.92 to 2.55 s", "980 ms to 1.20 s".
[[nodiscard]] std::string band_range(const MetricBand& band);

/// The runs behind the band, what keeps them from being more like this one, and their GPU counts if
/// this run's lies outside them: "54 measured of dense models, too few on blackwell, up to 512
/// GPUs".
[[nodiscard]] std::string band_evidence(const MetricBand& band, const Result& result);

/// "step about 2.2 s, 1.92 to 2.55 s (54 measured of dense models on hopper)".
[[nodiscard]] std::string band_words(const MetricBand& band, const Result& result);

/// "80 % of runs": the held-out runs that lie within such bands, not the runs that the bands are
/// made from.
[[nodiscard]] std::string band_held(const MetricBand& band);

}  // namespace shardsim

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "reports/result.hpp"
#include "reports/step_range.hpp"

// The days, GPU hours and dollars of a whole training, as ranges of measured runs like its layout.
namespace shardsim {

struct TrainingFigures {
  BandRange tokens_per_s;
  std::optional<double> goodput;  ///< Where failure rates are given.
  BandRange days;                 ///< With the goodput.
  BandRange gpu_hours;
  std::optional<BandRange> usd;  ///< Where there is a price.
};

/// `measured`: see measured_like(). `usd_per_gpu_hour`: 0 without a price.
[[nodiscard]] TrainingFigures training_figures(const Result& measured, double tokens,
                                               double usd_per_gpu_hour);

/// Whether days include failures: "downtime included: a goodput of 98.2 % ...", or that they do
/// not. Goodputs from `least` to `most`.
[[nodiscard]] std::string downtime_words(const std::optional<double>& least,
                                         const std::optional<double>& most);

/// "10 T tokens take about 41.3 days (36.0 to 49.5), 1.02 M GPU hours, $5.08 M".
[[nodiscard]] std::string training_words(const TrainingFigures& figures, double tokens);

/// "tokens_per_s", "goodput", "days", "gpu_hours" and "usd", each range by its four numbers.
void add_training(nlohmann::ordered_json& json, const TrainingFigures& figures);

}  // namespace shardsim

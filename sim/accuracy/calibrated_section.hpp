#pragma once

#include <string>
#include <vector>

#include "sim/accuracy/calibration_report.hpp"

// system.nccl after a calibration: all that the given system has there, with the fitted numbers in
// their place. It can replace the old system.nccl without a loss.
namespace shardsim {

struct CalibratedNumber {
  std::string key;  ///< "bandwidth_factor"
  double value = 0.0;
  std::string source;  ///< The source of a given number; empty: it is fitted.
};

struct CalibratedTier {
  std::string key;  ///< "intra_node"
  std::vector<CalibratedNumber> numbers;
  std::string source;  ///< The tables of the fitted numbers; empty: none is fitted.
};

struct CalibratedSection {
  std::string algorithms;  ///< Empty: all; likewise the protocols.
  std::string protocols;
  std::vector<CalibratedTier> tiers;  ///< Those with a number.
};

[[nodiscard]] CalibratedSection calibrated_section_of(const CalibrationReport& report);

/// The JSON object, each line behind `indent`.
[[nodiscard]] std::string object_text(const CalibratedSection& section, const std::string& indent);

/// The same as --set flags, each on a line of its own behind a backslash; without sources.
[[nodiscard]] std::string flags_text(const CalibratedSection& section);

}  // namespace shardsim

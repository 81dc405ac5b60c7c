#pragma once

#include <cstdint>
#include <string>

namespace shardsim {

/// The properties that make runs alike.
struct RunSetting {
  std::string device;    ///< The device of the kernels: system.device.kernels.
  std::string software;  ///< system.software; "none": predicted without a framework.
  std::int64_t ranks = 0;
};

/// How far one prediction was from one published measurement.
struct MeasuredError {
  std::string quantity;  ///< "step_time_s" or "peak_memory_bytes", as in `shardsim validate`.
  std::string table;     ///< A table of measurements: one cluster's, or one paper's.
  RunSetting setting;
  double error = 0.0;  ///< Predicted / measured - 1, above -1.

  /// Measured / predicted.
  [[nodiscard]] double ratio() const { return 1.0 / (1.0 + error); }
};

}  // namespace shardsim

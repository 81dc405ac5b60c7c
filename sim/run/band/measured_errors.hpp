#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// The errors that bands are made from, as a file: sim/run/band/measured_errors.json. `shardsim
// validate --write-band` writes it and the build compiles it into the program, so that a result
// depends on no other file of the machine.
namespace shardsim {

/// The properties that make runs alike.
struct RunSetting {
  std::string device;    ///< The device of the kernels: system.device.kernels.
  std::string software;  ///< system.software; "none": predicted without a framework.
  std::int64_t ranks = 0;
  bool has_experts = false;  ///< Mixture of Experts; else every layer is dense.
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

/// The share of a group's measurements that bands hold which were made without the measurements'
/// own table: the mean over the group's tables (band_coverage). Stored because it takes long.
struct HeldOutShare {
  std::string quantity;
  bool has_framework = false;
  std::string group;  ///< group_name(); a group that is large enough for a band of its own.
  double share = 0.0;
};

struct MeasuredErrors {
  std::vector<MeasuredError> errors;
  std::vector<HeldOutShare> held_out;
};

/// The share of a group of runs with this software, or without one. None if the group is too small
/// for a band.
[[nodiscard]] std::optional<double> held_out_share(const MeasuredErrors& known,
                                                   const std::string& quantity,
                                                   const std::string& software,
                                                   const std::string& group);

/// The held-out shares come first, computed from the errors as they are written. Errors of equal
/// quantity, table, device, software, kind of model and ranks become one sorted list, to 1e-4. The
/// same errors in any order give the same bytes.
[[nodiscard]] std::string measured_errors_text(const std::vector<MeasuredError>& errors);

/// Throws ScenarioError with file and line: E0932 (keys and types), and those of JSON.
[[nodiscard]] MeasuredErrors parse_measured_errors(const std::string& text,
                                                   const std::string& file_name);

/// The errors compiled into this program.
[[nodiscard]] const MeasuredErrors& built_in_measured_errors();

}  // namespace shardsim

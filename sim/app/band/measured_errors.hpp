#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/app/band/measured_error.hpp"

// The errors that bands are made from, as a file: sim/app/band/measured_errors.json, which
// `shardsim validate --write-band` writes and the build puts into the program, so that a result
// depends on nothing else that lies on the machine.
namespace shardsim {

/// Of measurements in a table that bands and their widening do not know, the share that they hold:
/// the mean of tables (mean_share_without() of band_coverage). In the file, for it takes long.
struct HeldOutShare {
  std::string quantity;
  bool has_framework = false;
  double share = 0.0;
};

struct MeasuredErrors {
  std::vector<MeasuredError> errors;
  std::vector<HeldOutShare> held_out;
};

/// Of runs under this software, whichever it is, or without one. None if no two tables say it.
[[nodiscard]] std::optional<double> held_out_share(const MeasuredErrors& known,
                                                   const std::string& quantity,
                                                   const std::string& software);

/// First the held-out shares, computed from the errors as they are written. Errors of equal
/// quantity, table, device, software and ranks become one sorted list, to 1e-4. The same errors in
/// any order give the same bytes.
[[nodiscard]] std::string measured_errors_text(const std::vector<MeasuredError>& errors);

/// Throws ScenarioError with file and line: E0932 (keys and types), and those of JSON.
[[nodiscard]] MeasuredErrors parse_measured_errors(const std::string& text,
                                                   const std::string& file_name);

/// Those that this program was built with.
[[nodiscard]] const MeasuredErrors& built_in_measured_errors();

}  // namespace shardsim

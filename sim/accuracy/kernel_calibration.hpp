#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "sim/hardware/device.hpp"
#include "sim/hardware/kernels/kernel_constants.hpp"

#include "scenarios/machine_spec.hpp"
#include "sim/accuracy/kernel_measurement.hpp"

// Fits constants of kernels to measured times, by the mean of |predicted / measured - 1|. Every
// fifth row of each file, operation and precision is held out. Operations that share constants are
// one stage, which is fitted after those that its prices rest on. A constant is fitted if the rows
// of its stage tell it apart from the others; it is not if another one could do its work.
namespace shardsim {

/// The first rows of which one is held out: with fewer a stage is not fitted. A constant needs
/// kRowsOfConstant of the rows that are fitted to.
inline constexpr std::size_t kLeastKernelRows = 10;
inline constexpr std::size_t kHeldOutOf = 5;
inline constexpr std::size_t kRowsOfConstant = 4;
/// The part of a constant's effect which no other constant could have, as the root of the mean
/// square of (change of the time / change of the constant): with less, the constant is not told.
inline constexpr double kLeastOwnEffect = 0.005;

/// Means of |predicted / measured - 1|. `held_out`: of rows that the fit did not see.
struct KernelErrors {
  KernelOperation operation{};
  KernelPrecision precision;
  std::size_t rows = 0;
  std::size_t held_out_rows = 0;
  double before = 0.0;  ///< For rows that are fitted to,
  double after = 0.0;
  double held_out_before = 0.0;  ///< and for the others.
  double held_out_after = 0.0;
};

struct FittedKernelConstant {
  std::string name;
  double before = 0.0;
  double after = 0.0;
};

/// Operations with constants in common.
struct KernelStage {
  std::string_view words;  ///< "products in 16 bits"
  std::size_t rows = 0;
  std::size_t fitted_rows = 0;
  bool has_enough = false;                      ///< Rows to be fitted to.
  std::vector<std::size_t> sources;             ///< Files that the rows are of.
  std::vector<FittedKernelConstant> constants;  ///< None are fitted where rows do not tell any.
  std::vector<std::string> untold;              ///< Constants that these rows do not tell.
};

struct KernelFit {
  std::vector<KernelStage> stages;   ///< Those with rows.
  std::vector<KernelErrors> errors;  ///< By operation and precision.
  KernelConstants constants;         ///< With the fitted ones.
};

/// Prices of a device with these constants, as kernels are measured: without launches, and without
/// software that makes several kernels of an operation. Bursts keep all of the rate, of which a
/// long run has sustained_share.
class MeasuredPrices {
 public:
  /// `constants` outlive it.
  MeasuredPrices(const Device& device, const KernelConstants& constants);
  [[nodiscard]] double seconds(const KernelMeasurement& row) const;

 private:
  struct Devices {
    Device in_run;
    Device in_burst;
  };
  std::array<Devices, kAttentionLibraries + 1> devices_;  // By library; the last one: ideal.
};

using KernelRows = std::vector<const KernelMeasurement*>;
/// Mean of |predicted / measured - 1|; 0 without rows.
[[nodiscard]] double mean_kernel_error(const Device& device, const KernelConstants& constants,
                                       const KernelRows& rows);
/// Those of `names` that the rows tell apart, the one with the largest effect first.
[[nodiscard]] std::vector<std::string> told_constants(const Device& device,
                                                      const KernelConstants& constants,
                                                      std::vector<std::string> names,
                                                      const KernelRows& rows);
/// `start` with other values of `names`, which lower the mean error, to four digits.
[[nodiscard]] KernelConstants search_constants(const Device& device, const KernelConstants& start,
                                               const std::vector<std::string>& names,
                                               const KernelRows& rows);

/// REQUIRES: device.kernels. Throws UsageError: E0962 if no stage has enough rows, E0965 if the
/// rows tell no constant, E0963 for products that the device's constants say it has not.
[[nodiscard]] KernelFit fit_kernels(const Device& device,
                                    const std::vector<KernelMeasurement>& measured);

/// All there is to print of a fit. The objects that it refers to outlive it.
struct KernelCalibration {
  const std::string& machine;
  const DeviceSpec& device;  ///< Before the fit, with constants that it replaces already.
  const std::vector<std::string>& files;
  const KernelFit& fit;
  std::string out;  ///< The file that kernel_overlay_text() goes to; empty: none.
};

/// The rows of tables that were read, and coverage of traces.
[[nodiscard]] std::string kernel_measurements_text(const std::vector<KernelTable>& tables,
                                                   const std::vector<KernelTrace>& traces);

/// Constants, errors with and without them, and how to use them.
[[nodiscard]] std::string kernel_calibration_text(const KernelCalibration& report);

/// The value of system.device.kernel_constants, with comments that say where it comes from.
[[nodiscard]] std::string kernel_overlay_text(const KernelCalibration& report);

}  // namespace shardsim

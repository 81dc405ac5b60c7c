#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string>

#include <catch2/catch.hpp>

#include "sim/hardware/device.hpp"
#include "sim/hardware/kernels/kernel_constants.hpp"

#include "tests/hardware/measured_table.hpp"

// How far prices are from measured times: GPUs of the data sheets, and errors of rows.
namespace shardsim::testing {

inline double number(const MeasuredRow& row, const std::string& column) {
  return std::stod(row.at(column));
}
inline std::int64_t integer(const MeasuredRow& row, const std::string& column) {
  return std::stoll(row.at(column));
}

inline Device device_with(const char* kernels, double peak, double bandwidth, double share) {
  Device device;
  device.memory_bytes_per_s = bandwidth;
  device.memory_efficiency = share;
  device.peak_flops_per_s.at(static_cast<std::size_t>(DType::bf16)) = peak;
  device.kernels = find_kernel_constants(kernels);
  REQUIRE(device.kernels != nullptr);
  return device;
}

// Datasheets; the share of the bandwidth is that of the system presets.
inline Device a100_pcie() { return device_with("a100-pcie", 312e12, 1935e9, 0.752); }
inline Device a100_sxm() { return device_with("a100-sxm", 312e12, 2039e9, 0.752); }
inline Device h100_sxm() { return device_with("h100-sxm", 989e12, 3350e9, 0.752); }
inline Device b200_sxm() { return device_with("b200-sxm", 2250e12, 8000e9, 0.666); }

// Mean absolute relative errors of times, of rows that were fitted on and of every fifth, which was
// not.
class SplitErrors {
 public:
  void add(double predicted, double measured) {
    const std::size_t part = count_++ % 5 == 4 ? 1 : 0;
    sum_.at(part) += std::abs(predicted / measured - 1.0);
    rows_.at(part) += 1.0;
  }
  [[nodiscard]] double fitted() const { return sum_[0] / rows_[0]; }
  [[nodiscard]] double held_out() const { return sum_[1] / rows_[1]; }
  [[nodiscard]] int count() const { return count_; }

 private:
  int count_ = 0;
  std::array<double, 2> sum_{};
  std::array<double, 2> rows_{};
};

}  // namespace shardsim::testing

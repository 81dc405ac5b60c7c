#pragma once

// The clock of a device that may draw less power than its rates need.
namespace shardsim {

/// The share of its clock that a device keeps at `limit_w` of `power_w` watts, (0, 1]: the cube
/// root of the share of power. Dynamic power is activity x capacity x voltage^2 x clock, and
/// voltage follows the clock (Weste and Harris, "CMOS VLSI Design"). Six pairs of products on chips
/// that are sold at two power levels have exponents from 0.17 to 0.56, mean 0.31
/// (docs/decisions/0087-power-and-graphs.md). REQUIRES: 0 < limit_w <= power_w.
[[nodiscard]] double clock_share(double limit_w, double power_w);

}  // namespace shardsim

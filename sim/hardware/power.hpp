#pragma once

// The clock of a device that may draw less power than its rates need.
namespace shardsim {

/// Dynamic power is activity x capacity x voltage^2 x clock, and voltage follows
/// the clock (Weste and Harris, "CMOS VLSI Design"). Chips that exist at two powers agree: six
/// pairs of bf16 and fp8 products in stas00/ml-engineering, compute/accelerator/README.md, table of
/// maximum achievable FLOPS, have exponents from 0.17 to 0.56, mean 0.31
/// (docs/decisions/0087-power-and-graphs.md).
/// The cube root of the share of power is so the share of its clock that a device keeps at
/// `limit_w` of `power_w` watts, (0, 1]. REQUIRES: 0 < limit_w <= power_w.
[[nodiscard]] double clock_share(double limit_w, double power_w);

}  // namespace shardsim

#pragma once

#include <cstdint>

namespace shardsim {

/// The possible range of the mean of a Poisson count.
struct PoissonInterval {
  double low = 0.0;
  double high = 0.0;
};

/// The central 90 % interval of the mean after `count` events were seen. Exact to 100 events:
/// Garwood, "Fiducial limits for the Poisson distribution" (Biometrika 28, 1936). Above that,
/// Byar's approximation, within 0.1 % of it: Breslow, Day, "Statistical methods in cancer research"
/// II (IARC, 1987), section 2.3. REQUIRES: count >= 1.
[[nodiscard]] PoissonInterval poisson_interval(std::int64_t count);

/// The approximation, for any count.
[[nodiscard]] PoissonInterval byar_interval(double count);

}  // namespace shardsim

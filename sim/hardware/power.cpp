#include "sim/hardware/power.hpp"

namespace shardsim {

// The cube root by Newton's method from above, which ends where rounding does: every machine rounds
// these steps alike.
double clock_share(double limit_w, double power_w) {
  const double share = limit_w / power_w;
  double root = 1.0;
  for (;;) {
    const double next = root - (root * root * root - share) / (3.0 * root * root);
    if (!(next < root)) return root;
    root = next;
  }
}

}  // namespace shardsim

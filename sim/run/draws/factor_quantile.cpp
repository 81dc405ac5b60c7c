#include "sim/run/draws/factor_quantile.hpp"

#include <cmath>

#include <boost/math/special_functions/erf.hpp>

namespace shardsim {

namespace {

double normal_quantile(double share) {
  return -std::sqrt(2.0) * boost::math::erfc_inv(2.0 * share);
}

}  // namespace

double factor_quantile(const FactorSpec& factor, double share) {
  switch (factor.distribution) {
    case FactorShape::none:
      return 1.0;
    case FactorShape::uniform:
      return 1.0 + factor.spread * share;
    case FactorShape::exponential:
      return 1.0 - factor.spread * std::log1p(-share);
    case FactorShape::lognormal:
      return std::exp(factor.spread * normal_quantile(share));
  }
  return 1.0;
}

}  // namespace shardsim

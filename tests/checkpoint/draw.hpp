#pragma once

#include <rapidcheck.h>

namespace shardsim::test {

/// Uniform in [min, max), to be called within a property. A bare inRange shrinks the range with the
/// size of the case, again for each number that depends on another, until nearly all cases are
/// tiny.
template <class Integer>
Integer draw(Integer min, Integer max) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<Integer>(min, max));
}

}  // namespace shardsim::test

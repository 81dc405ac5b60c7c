#pragma once

#include <string>
#include <vector>

#include "tests/mutants/faulty_communicator.hpp"

// A bug in the communication of one scenario, and who is to find it.
namespace shardsim::test {

/// The part that says that something is wrong.
enum class Detector {
  oracle,     ///< The model that is trained is not that of one device.
  deadlock,   ///< Ranks wait for what never comes, and it is said who waits for whom.
  mismatch,   ///< Two sides of a call differ when they meet.
  absence,    ///< A call waits for members that have come to their end.
  validator,  ///< The schedule is refused, with row and cell.
  buffers,    ///< Somebody touches a buffer that a communication uses.
  in_flight,  ///< Measured activations in flight are not those of the table.
  nobody,
};

struct Mutant {
  std::string scenario;  ///< One of scenarios/verify-*.json.
  std::string bug;       ///< For messages.
  Faults faults;
  Detector found_by = Detector::oracle;
};

}  // namespace shardsim::test

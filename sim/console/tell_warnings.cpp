#include "sim/console/tell_warnings.hpp"

#include <ostream>

#include "scenarios/source_text.hpp"

namespace shardsim {

void tell_warnings(const std::vector<std::string>& warnings, std::ostream& err) {
  for (const std::string& warning : warnings) {
    err << "warning: " << printable(warning, kWholeText) << "\n";
  }
}

}  // namespace shardsim

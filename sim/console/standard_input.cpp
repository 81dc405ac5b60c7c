#include "sim/console/standard_input.hpp"

#include <utility>

#include "scenarios/json_value.hpp"
#include "scenarios/read_file.hpp"
#include "scenarios/scenario_error.hpp"

namespace shardsim {

std::string read_standard_input(std::istream& in) {
  ProblemList problems;
  std::optional<std::string> text =
      read_stream(in, "standard input", JsonLimits{}.max_bytes, problems);
  problems.throw_if_any();
  return std::move(*text);
}

}  // namespace shardsim

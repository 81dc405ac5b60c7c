#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "sim/console/verb.hpp"

namespace shardsim {

struct ValidateArguments {
  std::vector<std::string> tables;  ///< Names of mappings, or paths that end in ".json"; all.
  std::string folder;               ///< With mappings and ratchet.json; empty: tests/validation.
  std::string html;                 ///< The file for the page; empty: none.
  bool sample = false;              ///< Some rows of each table, as its mapping says.
  bool json = false;
  bool ratchet = false;        ///< Fail if a figure is worse than in ratchet.json.
  bool write_ratchet = false;  ///< Write the figures to ratchet.json.
  std::string write_band;      ///< The file for the errors that bands are made from; none.
  std::string check_band;      ///< A file that must hold today's errors; none.
};

/// `shardsim validate [TABLE...]`: predictions against published measurements. Returns 0, or 1 if
/// a figure is worse than the ratchet's, or the file of errors is another. Throws Error for tables,
/// mappings and files that are wrong: E0920 (no such table), E0931 (a folder without tables), E0933
/// (errors of some rows only), E0901 (a file cannot be written).
int command_validate(const ValidateArguments& arguments, std::ostream& out, std::ostream& err);

[[nodiscard]] Verb validate_verb();

}  // namespace shardsim

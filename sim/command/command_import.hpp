#pragma once

#include <iosfwd>

#include "scenarios/formats/import_request.hpp"
#include "sim/console/verb.hpp"

namespace shardsim {

/// `shardsim import KIND FILE...`: writes a scenario that loads, and on `err` a table with the fate
/// of every foreign name. Throws Error: nothing is written then.
int command_import(const ImportRequest& request, std::ostream& out, std::ostream& err);

[[nodiscard]] Verb import_verb();

}  // namespace shardsim

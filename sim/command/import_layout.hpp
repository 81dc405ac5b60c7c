#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "scenarios/formats/import.hpp"

// The layout of an imported model: the fastest that a short search finds.
namespace shardsim {

/// Searches layouts of request.files.front() on `gpus` GPUs of a system preset, and writes the best
/// one into the import, with the batch that it was searched for. Tells on `err` how good it is.
/// Throws Error (does_not_fit) E1348 if none fits, or none is found in time, and what
/// prepare_search() throws.
void plan_imported(const ImportRequest& request, const std::string& preset, std::int64_t gpus,
                   Import& import, std::ostream& err);

}  // namespace shardsim

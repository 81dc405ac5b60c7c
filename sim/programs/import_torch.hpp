#pragma once

#include "scenarios/formats/import.hpp"

namespace shardsim {

/// `shardsim import torch`: records of a PyTorch program (shardsim.torch), or a program file, as
/// the scenario whose strategy does the same. The model is a transformer; what its kernels do not
/// say is assumed. Throws UsageError: E1390 where no scenario says it, E1378 and others of reading.
void import_torch(const ImportRequest& request, Import& import);

}  // namespace shardsim

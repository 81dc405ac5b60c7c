#pragma once

#include <string>
#include <vector>

#include "scenarios/formats/foreign_object.hpp"
#include "scenarios/formats/hf_model.hpp"
#include "scenarios/formats/import.hpp"

namespace shardsim {

/// The parts of a Llama-like model that no scenario can express, in sentences without a full stop.
[[nodiscard]] std::vector<std::string> hf_inexpressible(ForeignObject& config,
                                                        const HfFamily& family,
                                                        const HfModel& model);

/// Rows and fields of the model section.
void write_hf_model(ForeignObject& config, const HfFamily& family, const HfModel& model,
                    Import& import);

/// "dtype", or "torch_dtype" as it was before transformers 4.56.
void write_hf_precision(ForeignObject& config, Import& import);

}  // namespace shardsim

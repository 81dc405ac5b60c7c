#pragma once

#include <string>

#include "scenarios/formats/import.hpp"
#include "scenarios/formats/import_request.hpp"

namespace shardsim {

/// The model section and the precision, from Hugging Face's config.json. Throws ScenarioError
/// (E1354: an unknown family, keys missing) and UsageError (E1355: a scenario cannot express it).
void import_hf_model(const std::string& file, bool approximate, Import& import);

/// --model: a config.json, or the name of a model preset. Throws UsageError E1357 for neither.
void import_named_model(const std::string& model, bool approximate, Import& import);

/// `shardsim import hf`: the model as in the file; layout and batch are assumed.
void import_hf(const ImportRequest& request, Import& import);

}  // namespace shardsim

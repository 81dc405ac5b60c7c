#pragma once

#include <string>

// The presets that a page offers.
namespace shardsim {

/// {"models": [{"name", "seq_len"}], "systems": [{"name", "title", "gpus_per_node"}],
/// "schedules": [...]}. Presets that cannot be read are left out.
[[nodiscard]] std::string preset_list_json();

}  // namespace shardsim

#pragma once

namespace shardsim {

/// The code of a problem with a field or section that must be written and is missing: its pointer
/// names the field, or the object of a list that lacks one.
inline constexpr const char* kMissingFieldCode = "E0103";

}  // namespace shardsim

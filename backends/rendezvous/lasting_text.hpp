#pragma once

#include <string_view>

namespace shardsim {

/// The same text in memory that lasts as long as the process, for what holds `const char*`, such as
/// a CallSite, and comes from another process. Equal texts share it. It is bounded: long texts are
/// cut, and after some thousand different ones all further ones read "...".
[[nodiscard]] const char* lasting_text(std::string_view text);

}  // namespace shardsim

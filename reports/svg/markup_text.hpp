#pragma once

#include <string>
#include <string_view>

// Text inside HTML and SVG, between tags or in a quoted attribute.
namespace shardsim {

/// Any text, made harmless. Markup is escaped. Invisible characters (control characters, marks that
/// reorder text) are written out as on a terminal.
[[nodiscard]] std::string markup_text(std::string_view text);

}  // namespace shardsim

#pragma once

#include <string>
#include <string_view>

// Text inside HTML and SVG, between tags or in a quoted attribute.
namespace shardsim {

/// Any text, made harmless: what could be read as markup is escaped, and what no reader would see
/// (control characters, marks that reorder text) is written out as on a terminal.
[[nodiscard]] std::string markup_text(std::string_view text);

}  // namespace shardsim

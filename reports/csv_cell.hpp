#pragma once

#include <string>
#include <string_view>

namespace shardsim {

/// Writes a text as a cell of a CSV file, quoted as RFC 4180 requires. Spreadsheets compute a cell
/// that begins with = + - @ or a control character. Such a cell gets a leading apostrophe, which
/// marks plain text, unless the whole cell is a number. Use it for every cell that is not made from
/// a number.
[[nodiscard]] std::string csv_cell(std::string_view text);

}  // namespace shardsim

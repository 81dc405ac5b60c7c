#pragma once

#include <string>
#include <string_view>

namespace shardsim {

/// A text as a cell of a CSV file, quoted as RFC 4180 has it where that is needed. Spreadsheets
/// compute a cell that begins with = + - @ or a control character: it gets an apostrophe first, as
/// they write it themselves for plain text, unless the whole of it is a number. For every cell that
/// is not made from a number.
[[nodiscard]] std::string csv_cell(std::string_view text);

}  // namespace shardsim

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// Text for a terminal that is narrower than a message. Columns are code points.
namespace shardsim {

/// `first` and `text` on lines of at most `width` columns, broken at spaces; later lines are
/// indented by `indent` columns. A longer word, such as a path, stays whole, so that it can be
/// copied. Width 0: one line. Ends in a newline.
[[nodiscard]] std::string wrapped(std::string_view first, std::string_view text, std::size_t width,
                                  std::size_t indent);

/// `count` columns of `text`, from column `begin`.
[[nodiscard]] std::string columns_of(std::string_view text, std::size_t begin, std::size_t count);

[[nodiscard]] std::size_t num_columns(std::string_view text);

}  // namespace shardsim

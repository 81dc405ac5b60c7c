#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

// Tables with a row for each enumerator of a choice. A row has a `name`, by which scenario files
// call it.
namespace shardsim {

/// Whether each row stands at the place of its enumerator:
/// `static_assert(stand_in_order(kRows, &Row::kind))`.
template <class Row, std::size_t n, class Enum>
[[nodiscard]] constexpr bool stand_in_order(const std::array<Row, n>& rows, Enum Row::*enumerator) {
  for (std::size_t i = 0; i < n; ++i) {
    if (rows[i].*enumerator != static_cast<Enum>(i)) return false;
  }
  return true;
}

/// The names, in the order of the rows.
template <class Row, std::size_t n>
[[nodiscard]] constexpr std::array<const char*, n> names_in_order(const std::array<Row, n>& rows) {
  std::array<const char*, n> names{};
  for (std::size_t i = 0; i < n; ++i) names[i] = rows[i].name;
  return names;
}

/// "a, b or c": the names of all rows with a trait, each between two `quote`.
template <class Rows, class Trait>
[[nodiscard]] std::string names_that(const Rows& rows, Trait has, std::string_view before_last,
                                     std::string_view quote) {
  const auto last = std::find_if(rows.rbegin(), rows.rend(), has);
  std::string text;
  for (const auto& row : rows) {
    if (!has(row)) continue;
    if (!text.empty()) text += &row == &*last ? before_last : ", ";
    ((text += quote) += row.name) += quote;
  }
  return text;
}

}  // namespace shardsim

#pragma once

#include <cstddef>
#include <optional>
#include <type_traits>
#include <utility>

#include "scenarios/bound_field.hpp"

// Rows of the field table for the keys of objects in a list.
namespace shardsim {

/// A row of each object in a list; `list` finds it: [](auto& s) -> auto& { return s.expect; }.
/// set() fills the last object.
template <typename List, typename... Members>
Field item_field(const char* path, List list, Members... members) {
  using T = std::remove_cvref_t<decltype((list(std::declval<Scenario&>()).back().*....*members))>;
  Field row = field_internal::typed<T>(path);
  row.set = [list, members...](Scenario& s, const FieldValue& value) {
    field_internal::assign((list(s).back().*....*members), value);
  };
  row.get_item = [list, members...](const Scenario& s,
                                    std::size_t index) -> std::optional<FieldValue> {
    return field_internal::read((list(s)[index].*....*members));
  };
  return row;
}

}  // namespace shardsim

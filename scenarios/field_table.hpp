#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "scenarios/field.hpp"

// The rows, by section. To add a field: add a member to scenario.hpp (or a header that it includes)
// and a row here. A row is bound to a member of Scenario, and has the member's type.
namespace shardsim {

namespace field_internal {

template <typename T>
struct ValueOf : std::type_identity<T> {};
template <typename T>
struct ValueOf<Tracked<T>> : std::type_identity<T> {};

template <typename T>
FieldType type_of() {
  if constexpr (std::is_same_v<T, bool>) {
    return FieldType::boolean;
  } else if constexpr (std::is_enum_v<T>) {
    return FieldType::choice;
  } else if constexpr (std::is_integral_v<T>) {
    return FieldType::integer;
  } else if constexpr (std::is_floating_point_v<T>) {
    return FieldType::number;
  } else if constexpr (std::is_same_v<T, std::string>) {
    return FieldType::text;
  } else {
    static_assert(std::is_same_v<T, std::vector<std::int64_t>>);
    return FieldType::rank_list;
  }
}

template <typename T>
void assign(T& target, const FieldValue& value) {
  if constexpr (std::is_enum_v<T>) {
    const std::span<const char* const> names = choice_names(T{});
    const auto name = std::find(names.begin(), names.end(), std::get<std::string>(value));
    if (name != names.end()) target = static_cast<T>(name - names.begin());
  } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    target = static_cast<T>(std::get<std::int64_t>(value));
  } else {
    target = std::get<T>(value);
  }
}

template <typename T>
FieldValue read(const T& source) {
  if constexpr (!std::is_same_v<typename ValueOf<T>::type, T>) {
    return read(source.peek());  // For showing, which is no read.
  } else if constexpr (std::is_enum_v<T>) {
    return std::string(to_string(source));
  } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    return static_cast<std::int64_t>(source);
  } else {
    return source;
  }
}

template <typename T>
Field typed(const char* path) {
  Field row;
  row.path = path;
  row.type = type_of<T>();
  if constexpr (std::is_enum_v<T>) {
    for (const char* name : choice_names(T{})) row.choices.emplace_back(name);
  }
  return row;
}

}  // namespace field_internal

/// A row bound to a member of Scenario, with the member's type: field("a.b", &Scenario::a, &A::b).
template <typename... Members>
Field field(const char* path, Members... members) {
  using T = std::remove_cvref_t<decltype((std::declval<Scenario&>().*....*members))>;
  using Value = typename field_internal::ValueOf<T>::type;
  Field row = field_internal::typed<Value>(path);
  row.set = [members...](Scenario& s, const FieldValue& value) {
    Value read{};
    field_internal::assign(read, value);
    (s.*....*members) = read;
  };
  row.get = [members...](const Scenario& s) { return field_internal::read((s.*....*members)); };
  if constexpr (!std::is_same_v<T, Value>) {
    row.set_mark = [members...](Scenario& s, ReadMark mark) { (s.*....*members).set_mark(mark); };
  }
  return row;
}

/// A row bound to a member of the model.
template <typename Member>
Field model_field(const char* path, Member member) {
  return field(path, &Scenario::model, member);
}

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

/// A list of objects, found by `list` as for item_field. `name` and `example`: of one of them.
template <typename List>
Section list_section(const char* path, const char* meaning, List, const char* name,
                     std::string example) {
  return {path,
          meaning,
          true,
          "",
          {name, std::move(example), [](Scenario& s) { List{}(s).emplace_back(); },
           [](const Scenario& s) { return List{}(s).size(); }}};
}

/// A text that only the loader uses; no part of a run reads it.
inline Field loader_field(const char* path) {
  Field row = field_internal::typed<std::string>(path);
  row.set = [](Scenario&, const FieldValue&) {};
  return row;
}

/// The rows of all parts, in their order.
std::vector<Field> joined(std::initializer_list<std::vector<Field>> parts);

std::vector<Field> document_fields();
std::vector<Field> model_fields();
std::vector<Field> block_shape_fields();
std::vector<Field> linear_fields();
std::vector<Field> layer_fields();
std::vector<Field> prediction_fields();
/// The part of model_fields() about experts.
std::vector<Field> expert_fields();
std::vector<Section> layer_sections();
std::vector<Field> system_fields();
Section kernel_constant_section();
std::vector<Field> network_fields();
std::vector<Field> parallelism_fields();
std::vector<Field> data_parallel_fields();
std::vector<Field> training_fields();
std::vector<Field> execution_fields();
std::vector<Field> fault_fields();
std::vector<Section> fault_sections();
std::vector<Field> cost_fields();
std::vector<Field> output_fields();

/// The source of a whole section's numbers.
inline Field source_field(const char* path) {
  return loader_field(path).or_else("\"\"").doc(
      "Source of this section's numbers, unless a number names its own.");
}

// Powers of two that serve as upper bounds. They are chosen so that a product of the sizes of one
// tensor, its count and its element size stays within 64 bits.
inline constexpr double kTwoTo14 = 16384;
inline constexpr double kTwoTo20 = 1048576;
inline constexpr double kTwoTo22 = 4194304;
inline constexpr double kTwoTo24 = 16777216;
inline constexpr double kTwoTo31 = 2147483648.0;
inline constexpr double kTwoTo40 = 1099511627776.0;
inline constexpr double kTwoTo53 = 9007199254740992.0;

}  // namespace shardsim

#pragma once

#include <cstddef>
#include <cstdint>
#include <ranges>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include <fmt/format.h>

// Prints any constant, member by member, without knowing its type: a new member or table cannot be
// forgotten. One line for each number or text, "name[2].0 = value"; members are counted from 0.
// Numbers are printed with all their bits, so that two outputs are equal only if the tables are.
namespace shardsim::test {

/// Converts to any type, for counting members.
struct AnyMember {
  template <typename Member>
  constexpr operator Member() const;
};

/// The number of members of an aggregate: the most initializers that it accepts.
template <typename Aggregate, typename... Given>
consteval std::size_t count_members() {
  if constexpr (requires { Aggregate{Given{}..., AnyMember{}}; }) {
    return count_members<Aggregate, Given..., AnyMember>();
  } else {
    return sizeof...(Given);
  }
}

/// References to all members.
template <typename Aggregate>
constexpr auto members_of(const Aggregate& of) {
  constexpr std::size_t kCount = count_members<Aggregate>();
  // clang-format off
  if constexpr (kCount == 1) { const auto& [a] = of; return std::tie(a); }
  else if constexpr (kCount == 2) { const auto& [a, b] = of; return std::tie(a, b); }
  else if constexpr (kCount == 3) { const auto& [a, b, c] = of; return std::tie(a, b, c); }
  else if constexpr (kCount == 4) { const auto& [a, b, c, d] = of; return std::tie(a, b, c, d); }
  else if constexpr (kCount == 5) { const auto& [a, b, c, d, e] = of; return std::tie(a, b, c, d, e); }
  else if constexpr (kCount == 6) { const auto& [a, b, c, d, e, f] = of; return std::tie(a, b, c, d, e, f); }
  else if constexpr (kCount == 7) { const auto& [a, b, c, d, e, f, g] = of; return std::tie(a, b, c, d, e, f, g); }
  else if constexpr (kCount == 9) { const auto& [a, b, c, d, e, f, g, h, i] = of; return std::tie(a, b, c, d, e, f, g, h, i); }
  else if constexpr (kCount == 16) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = of;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p);
  } else if constexpr (kCount == 18) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r] = of;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r);
  } else {
    static_assert(kCount == 1, "write a line for aggregates of so many members");
  }
  // clang-format on
}

__extension__ using WideInteger = __int128;

/// Appends the lines of `value` to `text`.
template <typename Value>
void print_constant(std::string& text, const std::string& name, const Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    print_constant(text, name, static_cast<std::underlying_type_t<Value>>(value));
  } else if constexpr (std::is_integral_v<Value>) {
    text += fmt::format("{} = {}\n", name, static_cast<std::int64_t>(value));
  } else if constexpr (std::is_same_v<Value, WideInteger>) {
    // No integral type where extensions are off.
    text += fmt::format("{} = {} x 2^64 + {}\n", name, static_cast<std::int64_t>(value >> 64),
                        static_cast<std::uint64_t>(value));
  } else if constexpr (std::is_floating_point_v<Value>) {
    text += fmt::format("{} = {:.17g} {:a}\n", name, value, value);
  } else if constexpr (std::is_convertible_v<Value, std::string_view>) {
    text += fmt::format("{} = \"{}\"\n", name, std::string_view(value));
  } else if constexpr (std::ranges::range<Value>) {
    std::size_t index = 0;
    for (const auto& element : value) {
      print_constant(text, fmt::format("{}[{}]", name, index++), element);
    }
  } else {
    static_assert(std::is_aggregate_v<Value>, "say here how this is printed");
    std::apply(
        [&text, &name](const auto&... members) {
          std::size_t index = 0;
          (print_constant(text, fmt::format("{}.{}", name, index++), members), ...);
        },
        members_of(value));
  }
}

}  // namespace shardsim::test

#pragma once

#include <string>
#include <vector>

#include "scenarios/field.hpp"

// What the fields of the schema are set to, to see whether anybody hears of it.
namespace shardsim::test {

/// A field's value, and what must stand beside it, as for --set.
struct Setting {
  std::vector<std::string> beside;  ///< Set before and after.
  std::string before;               ///< Of a list's objects, which then are there; else empty.
  std::string after;
};

/// Settings of a field that need more than another value. The first that a base accepts is taken.
[[nodiscard]] std::vector<Setting> special_settings(const std::string& path);

/// Other values of a field than `value`, which its type and range allow.
[[nodiscard]] std::vector<std::string> other_values(const Field& field, const FieldValue& value);

/// Where a field has an effect that it has in no base as it stands: beside these.
struct Home {
  std::string path;
  std::string base;
  Setting setting;
};
[[nodiscard]] std::vector<Home> homes();

/// Fields that need not be heard of, and why.
struct Exception {
  std::string path;
  std::string reason;
};
[[nodiscard]] const std::vector<Exception>& exceptions();
/// Fields that no result depends on anywhere, and why. Where they have no effect they are named.
[[nodiscard]] const std::vector<Exception>& without_home();

}  // namespace shardsim::test

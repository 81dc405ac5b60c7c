#pragma once

#include <string>
#include <vector>

#include "scenarios/field.hpp"

// The values to which the test sets each field of the schema.
namespace shardsim::test {

/// A field's value, and other fields that it needs, in the form of --set.
struct Setting {
  std::vector<std::string> beside;  ///< Set in both runs.
  std::string before;               ///< For a list: the objects that are there before; else empty.
  std::string after;
};

/// Settings of a field that need more than another value. The first that a base accepts is used.
[[nodiscard]] std::vector<Setting> special_settings(const std::string& path);

/// Values of a field other than `value` that its type and range allow.
[[nodiscard]] std::vector<std::string> other_values(const Field& field, const FieldValue& value);

/// A setting that gives a field an effect that it has in no base alone.
struct Home {
  std::string path;
  std::string base;
  Setting setting;
};
[[nodiscard]] std::vector<Home> homes();

/// Whether it asks for a file: written_files_test.cpp holds that the file is then there.
[[nodiscard]] bool names_file(const Field& field);

/// Fields that need neither act nor be named, and why.
struct Exception {
  std::string path;
  std::string reason;
};
[[nodiscard]] const std::vector<Exception>& exceptions();
/// Fields on which no result depends anywhere, and why. Runs name them if they have no effect.
[[nodiscard]] const std::vector<Exception>& without_home();

}  // namespace shardsim::test

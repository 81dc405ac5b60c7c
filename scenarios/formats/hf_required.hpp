#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "scenarios/formats/foreign_object.hpp"

namespace shardsim {

/// Reads keys that a model's file must have, and remembers the missing ones.
class HfRequired {
 public:
  explicit HfRequired(ForeignObject& config) : config_(&config) {}

  /// Under the first of the keys that is there. `otherwise`: where none is, if above 0.
  std::int64_t integer(const std::vector<std::string>& keys,
                       const ForeignRange& range = kForeignSize, std::int64_t otherwise = 0) {
    for (const std::string& key : keys) {
      if (const auto value = config_->integer(key, range)) return *value;
    }
    if (otherwise > 0) return otherwise;
    miss(keys.front());
    return 1;
  }
  /// The same, where a key may also have a list with one number for each layer.
  std::int64_t of_layers(const std::vector<std::string>& keys, const ForeignRange& range) {
    for (const std::string& key : keys) {
      if (const auto value = config_->integer_of_layers(key, range)) return *value;
    }
    miss(keys.front());
    return 1;
  }
  void miss(const std::string& key) { missing_.push_back(key); }

  [[nodiscard]] const std::vector<std::string>& missing() const { return missing_; }

 private:
  ForeignObject* config_;
  std::vector<std::string> missing_;
};

}  // namespace shardsim

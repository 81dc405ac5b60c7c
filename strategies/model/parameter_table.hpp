#pragma once

#include <string>
#include <utility>
#include <vector>

#include "strategies/model/parameter.hpp"

// The list of a model's parameters while it is being written down: unit by unit, in order.
namespace shardsim {

class ParameterTable {
 public:
  /// Parameters added from now on belong to this unit.
  void begin_unit(std::string name) {
    units_.push_back({std::move(name), static_cast<int>(specs_.size()), 0});
  }
  /// Returns the parameter's index. REQUIRES: a unit was begun.
  int add(std::string name, const Shape& shape, const Init& init) {
    specs_.push_back({std::move(name), shape, init});
    ++units_.back().count;
    return static_cast<int>(specs_.size()) - 1;
  }
  [[nodiscard]] const std::vector<ParameterSpec>& specs() const { return specs_; }
  [[nodiscard]] const std::vector<ParameterUnit>& units() const { return units_; }

 private:
  std::vector<ParameterSpec> specs_;
  std::vector<ParameterUnit> units_;
};

}  // namespace shardsim

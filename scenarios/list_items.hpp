#pragma once

#include <cstddef>
#include <string>

namespace shardsim {

struct Scenario;

/// The facts that the reader and the writer need about a list of objects.
struct ListItems {
  std::string name;     // "an expectation"
  std::string example;  // "{...}": one of them
  void (*append)(Scenario&) = nullptr;
  std::size_t (*count)(const Scenario&) = nullptr;
};

}  // namespace shardsim

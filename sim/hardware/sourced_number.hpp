#pragma once

#include <cstdint>

// A constant and where it comes from: a paper, a datasheet, a file, or how it was fitted.
namespace shardsim {

struct SourcedNumber {
  double value = 0.0;
  const char* source = "";
};

struct SourcedBytes {
  std::int64_t bytes;
  const char* source;
};

}  // namespace shardsim

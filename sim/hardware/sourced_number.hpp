#pragma once

// A constant and where it comes from: a paper, a datasheet, a file, or how it was fitted.
namespace shardsim {

struct SourcedNumber {
  double value = 0.0;
  const char* source = "";
};

}  // namespace shardsim

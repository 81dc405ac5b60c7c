#pragma once

#include <vector>

#include "strategies/gradient_sync/flat_layout.hpp"

namespace shardsim {

/// Counts which chunks have all their gradients within one microbatch.
class ReadyTracker {
 public:
  explicit ReadyTracker(const FlatLayout& layout)
      : layout_(layout), missing_(layout.chunks().size()) {
    for (int chunk = 0; chunk < static_cast<int>(missing_.size()); ++chunk) reset(chunk);
  }

  void reset(int chunk) {
    missing_[static_cast<std::size_t>(chunk)] =
        static_cast<int>(layout_.chunk(chunk).parameters.size());
  }
  void mark(int parameter) { --missing_[static_cast<std::size_t>(layout_.place(parameter).chunk)]; }
  [[nodiscard]] bool ready(int chunk) const {
    return missing_[static_cast<std::size_t>(chunk)] <= 0;
  }

 private:
  const FlatLayout& layout_;
  std::vector<int> missing_;
};

}  // namespace shardsim

#pragma once

#include <vector>

#include "strategies/gradient_sync/flat_layout.hpp"

namespace shardsim {

/// Counts which chunks have all their gradients within one microbatch.
class ReadyTracker {
 public:
  explicit ReadyTracker(const FlatLayout& layout) : layout_(layout) { reset(); }

  void reset() {
    missing_.clear();
    for (const FlatChunk& chunk : layout_.chunks()) {
      missing_.push_back(static_cast<int>(chunk.parameters.size()));
    }
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

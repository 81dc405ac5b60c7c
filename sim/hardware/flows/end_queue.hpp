#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/hardware/flows/flow_tables.hpp"

namespace shardsim {

/// Foretold ends, earliest first. A flow that gets another rate gets another end and another
/// version; entries of older versions are skipped, and swept out when they are the majority.
class EndQueue {
 public:
  struct Entry {
    std::int64_t at;  ///< Picoseconds; beyond the clock: the largest number.
    FlowSlot slot;
    std::uint32_t version;
    bool operator>(const Entry& other) const {
      return at != other.at ? at > other.at : slot > other.slot;
    }
  };

  void push(const Entry& entry, const std::vector<FlowState>& flows);
  /// The earliest that still holds.
  [[nodiscard]] std::optional<Entry> first(const std::vector<FlowState>& flows);
  void pop();

 private:
  void sweep(const std::vector<FlowState>& flows);

  std::vector<Entry> entries_;  // A heap.
  std::size_t sweep_at_ = 1024;
};

}  // namespace shardsim

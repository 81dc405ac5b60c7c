#pragma once

#include <cstdint>
#include <string>

#include "backends/communicator.hpp"

namespace shardsim {

/// What one call asked for, as the other members compare it.
struct CallRecord {
  static constexpr int kNoTag = -2;
  const char* name = "";  ///< "all_reduce", "send", ...
  ReduceOp reduce = ReduceOp::sum;
  bool reduces = false;
  DType dtype = DType::fp32;
  int root = -1;           ///< Or the peer of a send or receive; -1: none, or any.
  int tag = kNoTag;        ///< Of a tagged message; kAnyTag: any.
  std::int64_t count = 0;  ///< Elements of the full buffer.
  const char* label = "";
  std::uint64_t counts_hash = 0;  ///< Of uneven chunk sizes, or of where padding lies.
  std::int64_t padding = 0;
  TrafficClass traffic = TrafficClass::payload;
  CallSite site;

  /// "all_reduce sum fp32 x 128 \"bucket 3\"".
  [[nodiscard]] std::string describe() const;
};

}  // namespace shardsim

#pragma once

#include <cstdint>
#include <string>

#include "backends/communicator.hpp"

namespace shardsim {

/// The request of one call, in the form that other members compare.
struct CallRecord {
  static constexpr int kNoTag = -2;
  const char* name = "";  ///< "all_reduce", "send", ...
  ReduceOp reduce = ReduceOp::sum;
  bool reduces = false;
  DType dtype = DType::fp32;
  int root = -1;           ///< Or the peer of a send or receive; -1: none, or any.
  int tag = kNoTag;        ///< For a tagged message; kAnyTag: any.
  std::int64_t count = 0;  ///< Elements of the full buffer.
  const char* label = "";
  std::uint64_t counts_hash = 0;  ///< Hash of uneven chunk sizes, or of padding ranges.
  std::int64_t padding = 0;
  TrafficClass traffic = TrafficClass::payload;
  CallSite site;

  /// "all_reduce sum fp32 x 128 \"bucket 3\"".
  [[nodiscard]] std::string describe() const;
};

}  // namespace shardsim

#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "sim/kernel/time.hpp"

// A demand is what a flow asks of a flow network: which links it uses and how much, how fast it
// goes alone, and how much there is to do. Everything is an integer, so that no sum depends on an
// order.
namespace shardsim {

__extension__ using Int128 = __int128;

/// A link of a flow network: its place in the order of add_link.
using LinkId = std::uint32_t;
inline constexpr LinkId kNoLink = std::numeric_limits<LinkId>::max();

/// The caller's name of a flow. The network reports it back and orders nothing else by it.
enum class FlowId : std::int64_t {};

/// Rates are in units of 2^-10 bytes per second: 63 bits hold 9 PB/s.
using FlowRate = std::int64_t;
inline constexpr FlowRate kRateUnitsPerByte = 1024;
/// Usage is bytes on a link per byte of progress, in units of 2^-16.
inline constexpr std::int64_t kWholeUsage = std::int64_t{1} << 16U;
/// The largest usage times weight: 2^24 connections.
inline constexpr std::int64_t kLargestShare = std::int64_t{1} << 40U;
/// The largest work: 2^63 bytes and more.
inline constexpr Int128 kLargestWork = Int128{1} << 118U;

/// A capacity in bytes per second as a rate, rounded to the nearest unit. Throws LimitError (E0322)
/// unless it is from 0 to 9 PB/s.
[[nodiscard]] FlowRate rate_of(double bytes_per_second);
/// So many bytes as work, in rate units times picoseconds. REQUIRES: not negative.
[[nodiscard]] Int128 work_of(std::int64_t bytes);

/// How a flow uses one link.
struct CrossedLink {
  LinkId link = 0;
  /// In units of 2^-16; at least 1. A flow that crosses a link twice has a usage of 2.
  std::int64_t usage = kWholeUsage;
  /// How many flows like this one it stands for on this link; at least 1.
  std::int64_t weight = 1;
  /// Payload that the flow brings over the link in all, for the link's count.
  std::int64_t bytes = 0;
};

struct FlowDemand {
  /// In any order, each link once. A flow without links goes at its cap.
  std::vector<CrossedLink> links;
  /// Its rate alone; at least one unit.
  FlowRate rate_cap = 0;
  /// Rate units times picoseconds; what takes a time T alone is rate_cap * T.
  Int128 work = 0;
  /// Until this has passed since the start, the flow uses nothing.
  Time latency;
  /// Whom its bytes are charged to: an axis, a job. Below FlowOptions::num_owners.
  std::uint32_t owner = 0;
};

}  // namespace shardsim

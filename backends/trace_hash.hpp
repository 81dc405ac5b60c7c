#pragma once

#include <bit>
#include <cstdint>

#include "sim/kernel/hash.hpp"

#include "sim/hardware/collective_rows.hpp"
#include "sim/hardware/compute_op.hpp"

#include "backends/call.hpp"

// The words of a run's trace hash for each operation, and the names that traces give to operations:
// the same for fibers and for replayed programs.
namespace shardsim {

/// Codes of calls that are no collectives; those have their kind's number.
inline constexpr unsigned kBatchCode = 0xFD;
inline constexpr unsigned kSendCode = 0xFE;
inline constexpr unsigned kRecvCode = 0xFF;

/// Names are labels of the code, not of the work. The kind and dtype share a word with the bytes.
inline void add_operation(RankHash& hash, const ComputeOp& op) {
  hash.add(op.flops);
  const auto unit = static_cast<unsigned>(op.kind) << 8U | static_cast<unsigned>(op.dtype);
  hash.add(std::rotl(static_cast<std::uint64_t>(op.bytes), 16) ^ unit);
}

/// A step that is about streams and events of the device.
enum class StreamAction : std::uint8_t { use, record, wait };
inline void add_stream_action(RankHash& hash, StreamAction action, std::uint32_t number) {
  hash.add((std::uint64_t{1} + static_cast<std::uint64_t>(action)) << 32U | number);
}

/// All that members agree on. Call sites are left out on purpose, and so is which of the groups of
/// one split it is: the split has told that, and ranks that do the same have equal words. `path`:
/// the group's; `label_hash`: hash_label of the record's label.
inline void add_call(RankHash& hash, std::uint64_t path, unsigned code, const CallRecord& record,
                     std::uint64_t label_hash) {
  const std::uint64_t fields = code | static_cast<std::uint64_t>(record.dtype) << 8U |
                               static_cast<std::uint64_t>(record.reduce) << 16U |
                               static_cast<std::uint64_t>(record.traffic) << 24U |
                               static_cast<std::uint64_t>(record.root + 1) << 32U;
  hash.add(path ^ fields);
  hash.add(static_cast<std::uint64_t>(record.count) ^ label_hash);
  if (record.padding != 0) hash.add(record.padding);
  if (record.counts_hash != 0) hash.add(record.counts_hash);
}

/// A rank's place in the group that a split forms; its color is kNoColor where it joins none. A
/// word of the rank's own.
[[nodiscard]] inline std::uint64_t choice_word(int color, int key) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(color)) << 32U |
         static_cast<std::uint32_t>(key);
}

/// Numbers that tell splits, and the groups of one split, apart: see GroupKey.
[[nodiscard]] inline std::uint64_t path_of_child(std::uint64_t parent_path, std::int64_t sequence) {
  RollingHash path;
  path.add(parent_path);
  path.add(sequence);
  return path.value();
}
[[nodiscard]] inline std::uint64_t id_of_child(std::uint64_t parent_id, std::int64_t sequence,
                                               int color) {
  RollingHash id;
  id.add(parent_id);
  id.add(sequence);
  id.add(std::int64_t{color});
  return id.value();
}

/// TraceSlice::operation of a collective, and of a message between two members.
[[nodiscard]] inline std::int64_t trace_id_of(std::uint64_t group_id, std::int64_t sequence) {
  RollingHash hash;
  hash.add(group_id);
  hash.add(sequence);
  return static_cast<std::int64_t>(hash.value() >> 1U);
}
[[nodiscard]] inline std::int64_t trace_id_of(std::uint64_t group_id, int source, int destination,
                                              std::int64_t sequence) {
  RollingHash hash;
  hash.add(group_id);
  // A collective has one word here.
  hash.add((std::int64_t{source} << 32) | destination);
  hash.add(sequence);
  return static_cast<std::int64_t>(hash.value() >> 1U);
}

}  // namespace shardsim

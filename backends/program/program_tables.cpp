#include "backends/program/program_tables.hpp"

#include <algorithm>
#include <functional>
#include <span>

#include "sim/kernel/hash.hpp"

#include "backends/collective_shape.hpp"

namespace shardsim {

namespace {

std::uint64_t word(const char* kept) { return reinterpret_cast<std::uintptr_t>(kept); }

bool same_operation(const ComputeOp& a, const ComputeOp& b) {
  return a.name == b.name && a.kind == b.kind && a.dtype == b.dtype && a.flops == b.flops &&
         a.bytes == b.bytes && a.shape == b.shape && a.launch == b.launch;
}

bool is_of(const ProgramMessage& message, const P2pOp& half) {
  return message.sends == (half.kind == P2pOp::Kind::send) && message.peer == half.peer &&
         message.dtype == half.buffer.dtype() && message.count == half.buffer.numel();
}

bool same_range(const ElementRange& a, const ElementRange& b) {
  return a.begin == b.begin && a.end == b.end;
}

bool same_fields(const CallRecord& own, const CallRecord& record) {
  return own.name == record.name && own.label == record.label && own.reduce == record.reduce &&
         own.reduces == record.reduces && own.dtype == record.dtype && own.root == record.root &&
         own.tag == record.tag && own.count == record.count && own.padding == record.padding &&
         own.traffic == record.traffic;
}

// Both texts of `record` are of the tables.
bool is_of(const ProgramCall& row, int group, const Call& call, const CallRecord& record) {
  return row.group == group && row.kind == call.kind && row.collective == call.collective &&
         same_fields(row.record, record) && std::ranges::equal(row.counts, call.options->counts) &&
         std::ranges::equal(row.padding_at, call.options->padding_at, same_range) &&
         std::ranges::equal(row.send_counts, call.send_counts) &&
         std::ranges::equal(row.recv_counts, call.recv_counts) &&
         std::ranges::equal(row.messages, call.halves, [](const auto& message, const auto& half) {
           return is_of(message, half);
         });
}

bool same_row(const ProgramCall& a, const ProgramCall& b) {
  return a.group == b.group && a.kind == b.kind && a.collective == b.collective &&
         same_fields(a.record, b.record) && a.counts == b.counts &&
         std::ranges::equal(a.padding_at, b.padding_at, same_range) &&
         a.send_counts == b.send_counts && a.recv_counts == b.recv_counts &&
         a.messages == b.messages;
}

// `add_halves`: adds each message's peer and elements.
template <class AddHalves>
std::uint64_t hash_of(int group, const CallRecord& record, std::span<const std::int64_t> sent,
                      std::span<const std::int64_t> received, const AddHalves& add_halves) {
  RollingHash hash;
  hash.add(word(record.name) ^ static_cast<std::uint64_t>(group) << 48U);
  hash.add(word(record.label) ^ static_cast<std::uint64_t>(record.dtype) << 48U ^
           static_cast<std::uint64_t>(record.traffic) << 56U);
  hash.add(record.count);
  hash.add(std::int64_t{record.root});
  hash.add(record.counts_hash);
  for (const std::int64_t count : sent) hash.add(count);
  for (const std::int64_t count : received) hash.add(count);
  add_halves(hash);
  return hash.value();
}

std::uint64_t hash_of(int group, const Call& call, const CallRecord& record) {
  return hash_of(group, record, call.send_counts, call.recv_counts, [&call](RollingHash& hash) {
    for (const P2pOp& half : call.halves) {
      hash.add(std::int64_t{half.peer});
      hash.add(half.buffer.numel());
    }
  });
}

std::uint64_t hash_of(const ProgramCall& call) {
  return hash_of(call.group, call.record, call.send_counts, call.recv_counts,
                 [&call](RollingHash& hash) {
                   for (const ProgramMessage& message : call.messages) {
                     hash.add(std::int64_t{message.peer});
                     hash.add(message.count);
                   }
                 });
}

ProgramCall row_of(int group, const Call& call, const CallRecord& record) {
  ProgramCall row{.group = group,
                  .kind = call.kind,
                  .collective = call.collective,
                  .record = record,
                  .label_hash = hash_label(record.label),
                  .counts = {call.options->counts.begin(), call.options->counts.end()},
                  .padding_at = {call.options->padding_at.begin(), call.options->padding_at.end()},
                  .send_counts = {call.send_counts.begin(), call.send_counts.end()},
                  .recv_counts = {call.recv_counts.begin(), call.recv_counts.end()},
                  .messages = {}};
  for (const P2pOp& half : call.halves) {
    row.messages.push_back({.sends = half.kind == P2pOp::Kind::send,
                            .peer = half.peer,
                            .dtype = half.buffer.dtype(),
                            .count = half.buffer.numel()});
  }
  return row;
}

// The number of an equal row of `rows`, which may be this one.
template <class Row, class Rows, class IsEqual>
std::uint32_t add_row(const Row& row, Rows& rows, RowIndex& index, const RollingHash& hash,
                      const IsEqual& is_equal) {
  const std::uint32_t number = index.find_or_add(
      hash.value(), rows.size(), [&](std::uint32_t other) { return is_equal(rows[other], row); });
  if (number == rows.size()) rows.push_back(row);
  return number;
}

}  // namespace

void RowIndex::grow() {
  constexpr std::size_t kFirst = 64;
  std::vector<Place> old(places_.empty() ? kFirst : 2 * places_.size());
  old.swap(places_);
  for (const Place& place : old) {
    if (place.row == kNone) continue;
    std::size_t i = place.hash & (places_.size() - 1);
    while (places_[i].row != kNone) i = (i + 1) & (places_.size() - 1);
    places_[i] = place;
  }
}

const char* ProgramTables::keep(const char* text) {
  // Another text may lie at the same address now; then both are entries.
  RollingHash hash;
  hash.add(word(text));
  const std::uint32_t entry =
      kept_index_.find_or_add(hash.value(), kept_.size(), [&](std::uint32_t row) {
        return kept_[row].first == text && same_text(kept_[row].second, text);
      });
  if (entry == kept_.size()) kept_.emplace_back(text, texts_.emplace(text).first->c_str());
  return kept_[entry].second;
}

std::uint32_t ProgramTables::add(const ComputeOp& op) {
  ComputeOp row = op;
  row.name = keep(op.name);
  RollingHash hash;
  hash.add(word(row.name) ^ static_cast<std::uint64_t>(op.kind) << 48U ^
           static_cast<std::uint64_t>(op.dtype) << 56U);
  for (const std::int64_t number : {op.flops, op.bytes, op.shape.m, op.shape.n, op.shape.k}) {
    hash.add(number);
  }
  return add_row(row, operations_, operation_index_, hash, same_operation);
}

std::uint32_t ProgramTables::add(const ProgramAllocation& allocation) {
  RollingHash hash;
  hash.add(allocation.bytes);
  hash.add(static_cast<std::int64_t>(allocation.category));
  return add_row(allocation, allocations_, allocation_index_, hash, std::equal_to<>());
}

std::uint32_t ProgramTables::add(int group, const Call& call) {
  CallRecord record = call.record;
  record.name = keep(record.name);
  record.label = keep(record.label);
  const std::uint32_t number = call_index_.find_or_add(
      hash_of(group, call, record), calls_.size(),
      [&](std::uint32_t other) { return is_of(calls_[other], group, call, record); });
  if (number == calls_.size()) calls_.push_back(row_of(group, call, record));
  return number;
}

std::uint32_t ProgramTables::add(ProgramCall call) {
  CallRecord& record = call.record;
  record.name = keep(record.name);
  record.label = keep(record.label);
  record.counts_hash = counts_hash_of(call.counts, call.padding_at);
  call.label_hash = hash_label(record.label);
  const std::uint32_t number =
      call_index_.find_or_add(hash_of(call), calls_.size(),
                              [&](std::uint32_t other) { return same_row(calls_[other], call); });
  if (number == calls_.size()) calls_.push_back(std::move(call));
  return number;
}

std::uint32_t ProgramTables::add(ProgramPlace place) {
  place.module = keep(place.module);
  RollingHash hash;
  hash.add(word(place.module) ^ static_cast<std::uint64_t>(place.phase) << 48U);
  return add_row(place, places_, place_index_, hash, std::equal_to<>());
}

std::uint32_t ProgramTables::add(ProgramHole hole) {
  hole.name = keep(hole.name);
  RollingHash hash;
  hash.add(word(hole.name));
  hash.add(hole.device.picoseconds());
  hash.add(hole.host.picoseconds());
  return add_row(hole, holes_, hole_index_, hash, std::equal_to<>());
}

std::uint32_t ProgramTables::add(ProgramTally tally) {
  tally.name = keep(tally.name);
  RollingHash hash;
  hash.add(word(tally.name));
  hash.add(tally.first);
  for (const std::int64_t amount : tally.amounts) hash.add(amount);
  return add_row(tally, tallies_, tally_index_, hash, std::equal_to<>());
}

std::uint32_t ProgramTables::add(const ProgramMark& mark) {
  RollingHash hash;
  hash.add(static_cast<std::int64_t>(mark.kind));
  hash.add(mark.step);
  return add_row(mark, marks_, mark_index_, hash, std::equal_to<>());
}

}  // namespace shardsim

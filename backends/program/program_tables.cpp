#include "backends/program/program_tables.hpp"

#include <algorithm>
#include <functional>

#include "sim/kernel/hash.hpp"

namespace shardsim {

namespace {

std::uint64_t word(const char* kept) { return reinterpret_cast<std::uintptr_t>(kept); }

bool same_operation(const ComputeOp& a, const ComputeOp& b) {
  return a.name == b.name && a.kind == b.kind && a.dtype == b.dtype && a.flops == b.flops &&
         a.bytes == b.bytes && a.shape == b.shape;
}

bool is_of(const ProgramMessage& message, const P2pOp& half) {
  return message.sends == (half.kind == P2pOp::Kind::send) && message.peer == half.peer &&
         message.dtype == half.buffer.dtype() && message.count == half.buffer.numel();
}

bool same_range(const ElementRange& a, const ElementRange& b) {
  return a.begin == b.begin && a.end == b.end;
}

// Both texts of `record` are of the tables.
bool is_of(const ProgramCall& row, int group, const Call& call, const CallRecord& record) {
  const CallRecord& own = row.record;
  return row.group == group && row.kind == call.kind && row.collective == call.collective &&
         own.name == record.name && own.label == record.label && own.reduce == record.reduce &&
         own.reduces == record.reduces && own.dtype == record.dtype && own.root == record.root &&
         own.tag == record.tag && own.count == record.count && own.padding == record.padding &&
         own.traffic == record.traffic && std::ranges::equal(row.counts, call.options->counts) &&
         std::ranges::equal(row.padding_at, call.options->padding_at, same_range) &&
         std::ranges::equal(row.send_counts, call.send_counts) &&
         std::ranges::equal(row.recv_counts, call.recv_counts) &&
         std::ranges::equal(row.messages, call.halves, [](const auto& message, const auto& half) {
           return is_of(message, half);
         });
}

std::uint64_t hash_of(int group, const Call& call, const CallRecord& record) {
  RollingHash hash;
  hash.add(word(record.name) ^ static_cast<std::uint64_t>(group) << 48U);
  hash.add(word(record.label) ^ static_cast<std::uint64_t>(record.dtype) << 48U ^
           static_cast<std::uint64_t>(record.traffic) << 56U);
  hash.add(record.count);
  hash.add(std::int64_t{record.root});
  hash.add(record.counts_hash);
  for (const std::int64_t count : call.send_counts) hash.add(count);
  for (const std::int64_t count : call.recv_counts) hash.add(count);
  for (const P2pOp& half : call.halves) {
    hash.add(std::int64_t{half.peer});
    hash.add(half.buffer.numel());
  }
  return hash.value();
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
template <class Row, class IsEqual>
std::uint32_t add_row(const Row& row, std::deque<Row>& rows, RowIndex& index,
                      const RollingHash& hash, const IsEqual& is_equal) {
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

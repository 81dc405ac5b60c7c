#include "backends/checked_communicator.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "sim/kernel/hash.hpp"

#include "sim/hardware/collective.hpp"

// What can be seen to be wrong on the calling rank alone. What members disagree about is found when
// they meet.
namespace shardsim {

namespace {

bool none_negative(std::span<const std::int64_t> counts) {
  return std::none_of(counts.begin(), counts.end(), [](std::int64_t count) { return count < 0; });
}

// 0: equal chunks, and padding at the end if there is any.
std::uint64_t counts_hash_of(const CallOptions& options) {
  RollingHash hash;
  for (const std::int64_t count : options.counts) hash.add(count);
  for (const ElementRange& range : options.padding_at) {
    hash.add(range.begin);
    hash.add(range.end);
  }
  return options.counts.empty() && options.padding_at.empty() ? 0 : hash.value();
}

}  // namespace

void CheckedCommunicator::complete(CallRecord& record, const CallOptions& options) const {
  record.label = options.label;
  record.padding = options.padding;
  record.traffic = options.traffic;
  if (options.padding != 0 || !options.padding_at.empty()) {
    check_padding(record.name, options, record.count, record.site);
  }
  record.counts_hash = counts_hash_of(options);
}

std::vector<std::int64_t> CheckedCommunicator::chunk_offsets(std::int64_t count,
                                                             const CallOptions& options,
                                                             bool any_count) const {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(size()) + 1, 0);
  for (int member = 0; member < size(); ++member) {
    const auto index = static_cast<std::size_t>(member);
    const std::int64_t chunk = any_count                ? chunk_size(count, size(), member)
                               : options.counts.empty() ? count / size()
                                                        : options.counts[index];
    offsets[index + 1] = offsets[index] + chunk;
  }
  return offsets;
}

void CheckedCommunicator::check_peer(const char* call, int peer, CallSite site) const {
  if (peer >= 0 && peer < size()) return;
  refuse(call, "root or peer is " + std::to_string(peer),
         "ranks of this group are 0 to " + std::to_string(size() - 1), site);
}

void CheckedCommunicator::refuse_undefined(const char* call, const char* argument,
                                           CallSite site) const {
  refuse(call, std::string(argument) + " is an undefined tensor", kUndefinedTensorHint, site);
}

void CheckedCommunicator::check_reduce_op(const char* call, ReduceOp op, CallSite site) const {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
    case ReduceOp::min:
    case ReduceOp::max:
    case ReduceOp::product:
      return;
  }
  refuse(call, "the reduce op is " + std::to_string(static_cast<int>(op)),
         "use sum, avg, min, max or product of ReduceOp", site);
}

void CheckedCommunicator::check_color(int color, CallSite site) const {
  if (color >= 0 || color == kNoColor) return;
  refuse("split", "the color is " + std::to_string(color),
         "colors start at 0; kNoColor is for a member that joins no group", site);
}

// Padding is part of the full buffer of `count` elements. REQUIRES: there is some.
void CheckedCommunicator::check_padding(const char* call, const CallOptions& options,
                                        std::int64_t count, CallSite site) const {
  if (options.padding < 0 || options.padding > count) {
    refuse(call,
           "`padding` is " + std::to_string(options.padding) + ", of " + std::to_string(count) +
               " elements",
           "padding is part of the full buffer; messages and all_to_all have none", site);
  }
  if (!options.counts.empty()) {
    refuse(call, "both `padding` and `counts` are given",
           "uneven chunks need no padding: leave one of the two out", site);
  }
  if (options.padding_at.empty()) return;
  std::int64_t sum = 0;
  std::int64_t end = 0;
  bool ascending = true;
  for (const ElementRange& range : options.padding_at) {
    ascending = ascending && range.begin >= end && range.end > range.begin;
    sum += range.end - range.begin;
    end = range.end;
  }
  if (!ascending || end > count || sum != options.padding) {
    refuse(call, "`padding_at` does not fit `padding` and the buffer",
           "give ascending, disjoint ranges of the full buffer that hold `padding` elements", site);
  }
}

// `full` is the buffer of all chunks, `own` this member's chunk.
void CheckedCommunicator::check_chunks(const char* call, const CallOptions& options,
                                       const Tensor& full, const Tensor& own, CallSite site) const {
  check_defined(call, "the full buffer", full, site);
  check_defined(call, "the chunk of this member", own, site);
  if (full.dtype() != own.dtype()) {
    refuse(call,
           "input and output differ in dtype: " + std::string(name_of(full.dtype())) + " and " +
               std::string(name_of(own.dtype())),
           "convert before the call", site);
  }
  if (options.counts.empty()) {
    if (full.numel() == own.numel() * size()) return;
    refuse(call,
           "the full buffer has " + std::to_string(full.numel()) + " elements, the chunk " +
               std::to_string(own.numel()) + ", in a group of " + std::to_string(size()),
           "the full buffer holds one equal chunk per member; for uneven ones give `counts`", site);
  }
  check_counts(call, options, own, site);
  const std::int64_t sum =
      std::accumulate(options.counts.begin(), options.counts.end(), std::int64_t{0});
  if (sum != full.numel()) refuse_counts(call, site);
}

// One for each member, and the own one is that of the chunk.
void CheckedCommunicator::check_counts(const char* call, const CallOptions& options,
                                       const Tensor& own, CallSite site) const {
  const bool fits = options.counts.size() == static_cast<std::size_t>(size()) &&
                    none_negative(options.counts) &&
                    options.counts[static_cast<std::size_t>(rank())] == own.numel();
  if (!fits) refuse_counts(call, site);
}

void CheckedCommunicator::refuse_counts(const char* call, CallSite site) const {
  refuse(call, "`counts` do not fit the buffers",
         "give one count per member; they sum to the full buffer, and the own one is the chunk's",
         site);
}

void CheckedCommunicator::check_splits(const Tensor& output, const Tensor& input,
                                       std::span<const std::int64_t> send_counts,
                                       std::span<const std::int64_t> recv_counts,
                                       CallSite site) const {
  check_defined("all_to_all", "`output`", output, site);
  check_defined("all_to_all", "`input`", input, site);
  const auto sum = [](std::span<const std::int64_t> counts) {
    return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  };
  const auto members = static_cast<std::size_t>(size());
  const bool equal = send_counts.empty() && recv_counts.empty() &&
                     input.numel() == output.numel() && input.numel() % size() == 0;
  const bool given = send_counts.size() == members && recv_counts.size() == members &&
                     sum(send_counts) == input.numel() && sum(recv_counts) == output.numel();
  // What a member keeps is the same number in both directions.
  const auto self = static_cast<std::size_t>(rank());
  const bool sound = equal || (given && none_negative(send_counts) && none_negative(recv_counts) &&
                               send_counts[self] == recv_counts[self]);
  if (sound && input.dtype() == output.dtype()) return;
  refuse("all_to_all", "the counts do not fit the buffers",
         "give one count per member for each direction, 0 or more, summing to the input and the "
         "output, with one's own alike; or none for equal chunks",
         site);
}

// The full count of gather and scatter is known at the root only, unless the chunks are equal.
std::int64_t CheckedCommunicator::full_count(const char* call, const CallOptions& options, int root,
                                             const Tensor& full, const Tensor& own,
                                             CallSite site) const {
  check_defined(call, "the chunk of this member", own, site);
  if (rank() == root) {
    check_chunks(call, options, full, own, site);
  } else if (!options.counts.empty()) {
    check_counts(call, options, own, site);
  }
  if (options.counts.empty()) return own.numel() * size();
  return std::accumulate(options.counts.begin(), options.counts.end(), std::int64_t{0});
}

}  // namespace shardsim

#include "backends/argument_check.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "sim/kernel/diagnosis.hpp"

#include "sim/hardware/collective_rows.hpp"

namespace shardsim {

namespace {

bool none_negative(std::span<const std::int64_t> counts) {
  return std::none_of(counts.begin(), counts.end(), [](std::int64_t count) { return count < 0; });
}

}  // namespace

void ArgumentCheck::refuse(const std::string& what, const std::string& hint) const {
  Diagnosis diagnosis = group_.diagnosis_of(call_, site_);
  diagnosis.code = "ARG_RANGE";
  diagnosis.summary = std::string(call_) + " on rank " +
                      std::to_string(diagnosis.sides.front().ranks.front()) + ": " + what;
  diagnosis.hint = hint;
  throw CommunicationError(std::move(diagnosis));
}

void ArgumentCheck::refuse_after() const {
  refuse("`after` is a Work that has already been waited for",
         "leave `after` out: the compute stream has already waited for it");
}

void ArgumentCheck::peer(int peer) const {
  if (peer >= 0 && peer < group_.size()) return;
  refuse("root or peer is " + std::to_string(peer),
         "ranks of this group are 0 to " + std::to_string(group_.size() - 1));
}

void ArgumentCheck::refuse_undefined(const char* argument) const {
  refuse(std::string(argument) + " is an undefined tensor", kUndefinedTensorHint);
}

void ArgumentCheck::reduce_op(ReduceOp op) const {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
    case ReduceOp::min:
    case ReduceOp::max:
    case ReduceOp::product:
      return;
  }
  refuse("the reduce op is " + std::to_string(static_cast<int>(op)),
         "use sum, avg, min, max or product of ReduceOp");
}

void ArgumentCheck::color(int color) const {
  if (color >= 0 || color == kNoColor) return;
  refuse("the color is " + std::to_string(color),
         "colors start at 0; kNoColor is for a member that joins no group");
}

int ArgumentCheck::member_of(const RankSpan& members) const {
  const int member = members.member_of(group_.rank());
  if (member < 0) {
    refuse("the group of " + std::to_string(members.size) + " ranks from " +
               std::to_string(members.rank(0)) + " on is without the caller",
           "name the group that the calling rank is in, or RankSpan::none()");
  }
  return member;
}

// Padding is part of the full buffer of `count` elements. REQUIRES: there is some.
void ArgumentCheck::padding(const CallOptions& options, std::int64_t count) const {
  if (options.padding < 0 || options.padding > count) {
    refuse("`padding` is " + std::to_string(options.padding) + ", of " + std::to_string(count) +
               " elements",
           std::string("padding is part of the full buffer; messages and ") +
               collective::kAllToAll.name + " have none");
  }
  if (!options.counts.empty()) {
    refuse("both `padding` and `counts` are given",
           "uneven chunks need no padding: leave one of the two out");
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
    refuse("`padding_at` does not fit `padding` and the buffer",
           "give ascending, disjoint ranges of the full buffer that hold `padding` elements");
  }
}

// `full` is the buffer of all chunks, `own` this member's chunk.
void ArgumentCheck::chunks(const CallOptions& options, const Tensor& full,
                           const Tensor& own) const {
  defined("the full buffer", full);
  defined("the chunk of this member", own);
  if (full.dtype() != own.dtype()) {
    refuse("input and output differ in dtype: " + std::string(name_of(full.dtype())) + " and " +
               std::string(name_of(own.dtype())),
           "convert before the call");
  }
  if (options.counts.empty()) {
    if (full.numel() == own.numel() * group_.size()) return;
    refuse("the full buffer has " + std::to_string(full.numel()) + " elements, the chunk " +
               std::to_string(own.numel()) + ", in a group of " + std::to_string(group_.size()),
           "the full buffer holds one equal chunk per member; for uneven ones give `counts`");
  }
  counts(options, own);
  const std::int64_t sum =
      std::accumulate(options.counts.begin(), options.counts.end(), std::int64_t{0});
  if (sum != full.numel()) refuse_counts();
}

// One for each member, and the own one is that of the chunk.
void ArgumentCheck::counts(const CallOptions& options, const Tensor& own) const {
  const bool fits = options.counts.size() == static_cast<std::size_t>(group_.size()) &&
                    none_negative(options.counts) &&
                    options.counts[static_cast<std::size_t>(group_.rank())] == own.numel();
  if (!fits) refuse_counts();
}

void ArgumentCheck::refuse_counts() const {
  refuse("`counts` do not fit the buffers",
         "give one count per member; they add up to the full buffer, and this member's equals its "
         "chunk");
}

void ArgumentCheck::splits(const Tensor& output, const Tensor& input,
                           std::span<const std::int64_t> send_counts,
                           std::span<const std::int64_t> recv_counts) const {
  defined("`output`", output);
  defined("`input`", input);
  const auto sum = [](std::span<const std::int64_t> counts) {
    return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  };
  const auto members = static_cast<std::size_t>(group_.size());
  const bool equal = send_counts.empty() && recv_counts.empty() &&
                     input.numel() == output.numel() && input.numel() % group_.size() == 0;
  const bool given = send_counts.size() == members && recv_counts.size() == members &&
                     sum(send_counts) == input.numel() && sum(recv_counts) == output.numel();
  // A member's count to itself is the same in both directions.
  const auto self = static_cast<std::size_t>(group_.rank());
  const bool sound = equal || (given && none_negative(send_counts) && none_negative(recv_counts) &&
                               send_counts[self] == recv_counts[self]);
  if (sound && input.dtype() == output.dtype()) return;
  refuse("the counts do not fit the buffers",
         "give one count per member and direction, 0 or more, adding up to the input and the "
         "output, with equal counts for the member itself; or none for equal chunks");
}

// The full count of gather and scatter is known at the root only, unless the chunks are equal.
std::int64_t ArgumentCheck::full_count(const CallOptions& options, int root, const Tensor& full,
                                       const Tensor& own) const {
  defined("the chunk of this member", own);
  if (group_.rank() == root) {
    chunks(options, full, own);
  } else if (!options.counts.empty()) {
    counts(options, own);
  }
  if (options.counts.empty()) return own.numel() * group_.size();
  return std::accumulate(options.counts.begin(), options.counts.end(), std::int64_t{0});
}

}  // namespace shardsim

#include "backends/call.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "sim/hardware/collective_rows.hpp"

namespace shardsim {

namespace {

struct CallDifference {
  const char* code;
  const char* what;
  const char* hint;
};

// The most telling difference between two calls of one operation.
CallDifference difference_of(const CallRecord& a, const CallRecord& b) {
  if (makes_groups(a.name) || makes_groups(b.name)) {
    return {"GROUP_CREATE", "members make groups in different orders",
            "split on all members at the same points of the program, in the same order"};
  }
  if (!same_text(a.name, b.name)) {
    return {"COLL_ORDER", "members call different operations",
            "make every member issue its calls in the same order"};
  }
  // Before sizes: other data have other sizes, too, and a pad would be the wrong advice.
  if (!same_text(a.label, b.label)) {
    return {"COLL_LABEL", "members make the same call for different data",
            "one member skipped or repeated an earlier call"};
  }
  if (a.dtype != b.dtype) {
    return {"COLL_DTYPE", "members give different dtypes", "convert to one dtype before the call"};
  }
  if (a.reduce != b.reduce) {
    return {"COLL_REDOP", "members reduce with different operations", "use one reduce op"};
  }
  if (a.root != b.root) {
    return {"COLL_ROOT", "members name different roots",
            "a root is a rank in the group, not in the world"};
  }
  if (a.count != b.count || a.counts_hash != b.counts_hash || a.padding != b.padding) {
    return {"COLL_COUNT", "members give different sizes",
            "pad to a common size, or give every member the same `counts`"};
  }
  return {"COLL_TRAFFIC", "members count the bytes of a call differently",
          "give every member the same `traffic`: payload, or scalar"};
}

// " fp32 x 128", as far as the call has a type and one size.
std::string size_of_call(const CallRecord& call) {
  const std::string_view name(call.name);
  if (name == "batch") return " of " + std::to_string(call.count);
  if (call.count < 0) return {};
  const auto row = std::ranges::find(kCollectiveRows, name, &CollectiveRow::name);
  const bool collective = row != std::end(kCollectiveRows);
  if (collective && row->path == CollectivePath::none) return {};
  const std::string type = " " + std::string(name_of(call.dtype));
  // Each pair of members has a size of its own.
  if (collective && row->path == CollectivePath::pairs) return type;
  return type + " x " + std::to_string(call.count);
}

}  // namespace

std::string CallRecord::describe() const {
  std::string text = name;
  if (reduces) text += std::string(" ") + name_of(reduce);
  const bool probes = std::string_view(name) == "probe";  // It has no buffer.
  if (!probes) text += size_of_call(*this);
  if (root >= 0) {
    const std::string_view call(name);
    text += call == "send" ? " to " : call == "recv" || probes ? " from " : " root ";
    text += std::to_string(root);
  }
  if (tag != kNoTag) {
    if (root < 0) text += " from any";
    text += tag < 0 ? " with any tag" : " with tag " + std::to_string(tag);
  }
  if (*label != '\0') text += std::string(" \"") + label + "\"";
  if (padding != 0) text += " with " + std::to_string(padding) + " of padding";
  // Making groups counts as scalars throughout; saying so each time would tell nothing.
  if (traffic == TrafficClass::scalar && !makes_groups(name)) text += " as scalars";
  return text;
}

std::vector<std::int64_t> chunk_offsets(const CollectiveRow& row, std::int64_t count,
                                        std::span<const std::int64_t> counts, int size) {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(size) + 1, 0);
  for (int member = 0; member < size; ++member) {
    const auto index = static_cast<std::size_t>(member);
    const std::int64_t chunk = row.in_place()   ? chunk_size(count, size, member)
                               : counts.empty() ? count / size
                                                : counts[index];
    offsets[index + 1] = offsets[index] + chunk;
  }
  return offsets;
}

bool same_message(const CallRecord& send, const CallRecord& recv) {
  return send.count == recv.count && send.dtype == recv.dtype && send.traffic == recv.traffic &&
         same_text(send.label, recv.label);
}

Diagnosis explain_mismatched_calls(const std::string& group, std::int64_t sequence,
                                   const CallRecord& agreed, std::vector<int> agreeing,
                                   std::span<const MadeCall> others) {
  const CallDifference difference = difference_of(agreed, others.front().record);
  Diagnosis diagnosis{.code = difference.code,
                      .summary = std::string(difference.what) + " as operation #" +
                                 std::to_string(sequence) + " of group " + group,
                      .sides = {agreed.side_of(ascending(std::move(agreeing)))},
                      .hint = difference.hint};
  SideTable by_call;
  for (const auto& [rank, record] : others) by_call.add(rank, record.describe(), record.site);
  by_call.append_to(diagnosis.sides);
  sort_sides(diagnosis);
  return diagnosis;
}

Diagnosis explain_mismatched_message(std::int64_t sequence, const MadeCall& sender,
                                     const MadeCall& receiver) {
  CallRecord fitting = receiver.record;
  fitting.count = sender.record.count;
  const bool too_small = receiver.record.count < sender.record.count;
  const bool truncates = too_small && same_message(sender.record, fitting);
  return {.code = truncates ? "P2P_TRUNC" : "P2P_MISMATCH",
          .summary = "message #" + std::to_string(sequence) + " from rank " +
                     std::to_string(sender.rank) + " to rank " + std::to_string(receiver.rank) +
                     (truncates ? " does not fit the buffer it is received into"
                                : " is sent as one kind of data and received as another"),
          .sides = {sender.record.side_of({sender.rank}), receiver.record.side_of({receiver.rank})},
          .hint = truncates ? "receive into a buffer of the size that is sent"
                            : "messages between two ranks match in the order they are posted"};
}

DiagnosisSide CallRecord::side_of(std::vector<int> ranks) const {
  return {.ranks = std::move(ranks), .action = describe(), .site = site};
}

std::vector<int> ascending(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

DiagnosisSide& SideTable::add(int rank, const std::string& action, CallSite site) {
  DiagnosisSide& side =
      by_action_.try_emplace(action, DiagnosisSide{.action = action, .site = site}).first->second;
  side.ranks.push_back(rank);
  return side;
}

void SideTable::append_to(std::vector<DiagnosisSide>& sides) {
  for (auto& [_, side] : by_action_) {
    std::sort(side.ranks.begin(), side.ranks.end());
    sides.push_back(std::move(side));
  }
}

void sort_sides(Diagnosis& diagnosis) {
  std::sort(diagnosis.sides.begin(), diagnosis.sides.end(),
            [](const DiagnosisSide& a, const DiagnosisSide& b) {
              if (a.ranks.size() != b.ranks.size()) return a.ranks.size() < b.ranks.size();
              return a.ranks < b.ranks;
            });
}

}  // namespace shardsim

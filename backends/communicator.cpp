#include "backends/communicator.hpp"

#include <vector>

#include "sim/kernel/diagnosis.hpp"
#include "sim/kernel/error.hpp"

#include "backends/argument_check.hpp"
#include "backends/call.hpp"
#include "backends/collective_shape.hpp"
#include "backends/tagged_messages.hpp"

// The typed calls: each checks its arguments and fills one Call for `post`.
namespace shardsim {

namespace {

// For calls without one.
constexpr int kNoRoot = -1;
constexpr ReduceOp kNoOp = ReduceOp::sum;

// Enters what the options say into the record.
Work post_collective(Communicator& group, const ArgumentCheck& check, Call&& call) {
  const CallOptions& options = *call.options;
  CallRecord& record = call.record;
  record.label = options.label;
  record.padding = options.padding;
  record.traffic = options.traffic;
  record.counts_hash = counts_hash_of(options.counts, options.padding_at);
  if (options.padding != 0 || !options.padding_at.empty()) check.padding(options, record.count);
  check.after(options);
  return group.post(call);
}

// Inlined, so that typed calls know their row when they are compiled, and pay for no question.
[[gnu::always_inline]] inline Work post_row(Communicator& group, const CollectiveRow& row,
                                            const Tensor& output, const Tensor& input, ReduceOp op,
                                            int root, const CallOptions& options, CallSite site) {
  const ArgumentCheck check(group, row.name, site);
  const Tensor& given = row.in_place() ? output : input;
  const bool whole_output = row.output == BufferPart::whole;
  const Tensor& whole = whole_output ? output : given;
  const Tensor& chunk = whole_output ? given : output;
  const bool has_root = row.root != RootRole::none;
  if (has_root) check.peer(root);
  std::int64_t count = 0;
  if (row.in_place()) {
    check.defined("`buffer`", whole);
    count = whole.numel();
  } else if (row.path == CollectivePath::ring) {
    check.chunks(options, whole, chunk);
    count = whole.numel();
  } else if (row.path == CollectivePath::star) {
    count = check.full_count(options, root, whole, chunk);
  }
  if (row.reduces) check.reduce_op(op);
  return post_collective(group, check,
                         {.collective = row,
                          .record = {.name = row.name,
                                     .reduce = row.reduces ? op : kNoOp,
                                     .reduces = row.reduces,
                                     .dtype = chunk.dtype(),
                                     .root = has_root ? root : kNoRoot,
                                     .count = count,
                                     .site = site},
                          .options = &options,
                          .output = &output,
                          .input = &given});
}

void check_half(const ArgumentCheck& check, const P2pOp& half, const CallOptions& options) {
  check.peer(half.peer);
  check.defined("`buffer`", half.buffer);
  if (options.padding != 0 || !options.padding_at.empty()) check.padding(options, 0);
}

Work post_message(Communicator& group, CallKind kind, const P2pOp& half, const CallOptions& options,
                  CallSite site) {
  const char* name = kind == CallKind::send ? "send" : "recv";
  const ArgumentCheck check(group, name, site);
  check_half(check, half, options);
  check.after(options);
  return group.post({.kind = kind,
                     .record = {.name = name,
                                .dtype = half.buffer.dtype(),
                                .root = half.peer,
                                .count = half.buffer.numel(),
                                .label = options.label,
                                .traffic = options.traffic,
                                .site = site},
                     .options = &options,
                     .halves = {&half, 1}});
}

}  // namespace

Diagnosis Communicator::diagnosis_of(const std::string& action, CallSite site) const {
  return {.group = name(), .sides = {{.ranks = {rank()}, .action = action, .site = site}}};
}

std::unique_ptr<Communicator> Communicator::subgroup(const RankSpan& members,
                                                     const std::string& name, CallSite site) {
  if (members.size == 0) return split(kNoColor, 0, name, site);
  const int member = ArgumentCheck(*this, collective::kSplit.name, site).member_of(members);
  return split(members.rank(0), member, name, site);
}

Work Communicator::collective(CollectiveKind kind, const Tensor& output, const Tensor& input,
                              ReduceOp op, int root, const CallOptions& options, CallSite site) {
  const CollectiveRow& row = row_of(kind);
  if (row.path == CollectivePath::pairs) return all_to_all(output, input, {}, {}, options, site);
  return post_row(*this, row, output, input, op, root, options, site);
}

Work Communicator::all_reduce(const Tensor& buffer, ReduceOp op, const CallOptions& options,
                              CallSite site) {
  return post_row(*this, collective::kAllReduce, buffer, buffer, op, kNoRoot, options, site);
}

Work Communicator::reduce_scatter(const Tensor& output, const Tensor& input, ReduceOp op,
                                  const CallOptions& options, CallSite site) {
  return post_row(*this, collective::kReduceScatter, output, input, op, kNoRoot, options, site);
}

Work Communicator::all_gather(const Tensor& output, const Tensor& input, const CallOptions& options,
                              CallSite site) {
  return post_row(*this, collective::kAllGather, output, input, kNoOp, kNoRoot, options, site);
}

Work Communicator::all_to_all(const Tensor& output, const Tensor& input,
                              std::span<const std::int64_t> send_counts,
                              std::span<const std::int64_t> recv_counts, const CallOptions& options,
                              CallSite site) {
  const ArgumentCheck check(*this, collective::kAllToAll.name, site);
  check.splits(output, input, send_counts, recv_counts);
  std::vector<std::int64_t> equal;
  if (send_counts.empty()) {
    equal.assign(static_cast<std::size_t>(size()), input.numel() / size());
    send_counts = recv_counts = equal;
  }
  // Members may send different amounts: they agree on the dtype only.
  return post_collective(*this, check,
                         {.collective = collective::kAllToAll,
                          .record = {.name = collective::kAllToAll.name,
                                     .dtype = input.dtype(),
                                     .count = 0,
                                     .site = site},
                          .options = &options,
                          .output = &output,
                          .input = &input,
                          .send_counts = send_counts,
                          .recv_counts = recv_counts});
}

Work Communicator::broadcast(const Tensor& buffer, int root, const CallOptions& options,
                             CallSite site) {
  return post_row(*this, collective::kBroadcast, buffer, buffer, kNoOp, root, options, site);
}

Work Communicator::reduce(const Tensor& buffer, ReduceOp op, int root, const CallOptions& options,
                          CallSite site) {
  return post_row(*this, collective::kReduce, buffer, buffer, op, root, options, site);
}

Work Communicator::gather(const Tensor& output, const Tensor& input, int root,
                          const CallOptions& options, CallSite site) {
  return post_row(*this, collective::kGather, output, input, kNoOp, root, options, site);
}

Work Communicator::scatter(const Tensor& output, const Tensor& input, int root,
                           const CallOptions& options, CallSite site) {
  return post_row(*this, collective::kScatter, output, input, kNoOp, root, options, site);
}

Work Communicator::barrier(const CallOptions& options, CallSite site) {
  const Tensor none;
  return post_row(*this, collective::kBarrier, none, none, kNoOp, kNoRoot, options, site);
}

std::unique_ptr<TaggedMessages> Communicator::tagged_messages() {
  throw UsageError("E0512", "the backend of group " + name() + " has no messages with tags",
                   "use sends and receives without tags: NCCL has no others");
}

Work Communicator::send(const Tensor& buffer, int peer, const CallOptions& options, CallSite site) {
  return post_message(*this, CallKind::send, {P2pOp::Kind::send, buffer, peer}, options, site);
}

Work Communicator::recv(const Tensor& buffer, int peer, const CallOptions& options, CallSite site) {
  return post_message(*this, CallKind::recv, {P2pOp::Kind::recv, buffer, peer}, options, site);
}

Work Communicator::batch(std::span<const P2pOp> operations, const CallOptions& options,
                         CallSite site) {
  for (const P2pOp& half : operations) {
    const char* name = half.kind == P2pOp::Kind::send ? "send" : "recv";
    check_half(ArgumentCheck(*this, name, site), half, options);
  }
  ArgumentCheck(*this, "batch", site).after(options);
  return post({.kind = CallKind::batch,
               .record = {.name = "batch",
                          .count = static_cast<std::int64_t>(operations.size()),
                          .label = options.label,
                          .traffic = options.traffic,
                          .site = site},
               .options = &options,
               .halves = operations});
}

}  // namespace shardsim

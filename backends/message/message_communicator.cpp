#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "backends/argument_check.hpp"
#include "backends/message/message_rank.hpp"

namespace shardsim {

namespace {

bool overlap_in_memory(const Tensor& a, const Tensor& b) {
  return a.data() < b.data() + b.num_bytes() && b.data() < a.data() + a.num_bytes();
}

}  // namespace

MessageCommunicator::MessageCommunicator(MessageRank& rank, MessageStream& stream)
    : ProcessCommunicator(rank, stream),
      rank_(rank),
      stream_(stream),
      layout_(rank.options().cluster, stream.members) {}

MessageCommunicator::~MessageCommunicator() { rank_.close(stream_, std::move(traffic_)); }

MessageCommunicator::Operation MessageCommunicator::make(const Call& call, MessagePlan plan,
                                                         const Tensor& output,
                                                         const Tensor& input) {
  Operation operation = std::make_shared<MessageOperation>(call.record, stream_.next_sequence++,
                                                           std::move(plan), output, input);
  operation->set_options(*call.options, size());
  return operation;
}

Work MessageCommunicator::launch(const Operation& operation) {
  rank_.post(stream_, operation);
  return hand_out(operation);
}

Work MessageCommunicator::post(const Call& call) {
  if (call.kind != CallKind::collective) return transfer(call);
  const Operation operation = make(call, tree_or_plan_of(call), *call.output, *call.input);
  set_windows(*operation, call);
  choose_carrier(*operation, call);
  return launch(operation);
}

bool MessageCommunicator::sums_along_tree(const CallRecord& record) {
  if (size() <= 1) return false;
  if (!tree_) tree_ = std::make_unique<DoubleTree>(layout_);
  const std::int64_t width = size_of(record.dtype);
  return rank_.choose(layout_, *tree_, record.count * width,
                      chunk_size(record.count, size(), 0) * width) == Algorithm::tree;
}

MessagePlan MessageCommunicator::tree_or_plan_of(const Call& call) {
  if (row_of(call.collective).reduces_to_all() && sums_along_tree(call.record)) {
    return plan_tree_messages(*tree_, size(), rank(), call.record.count);
  }
  return plan_of(call);
}

void MessageCommunicator::set_windows(MessageOperation& operation, const Call& call) const {
  const Tensor& output = *call.output;
  const Tensor& input = *call.input;
  const bool at_root = call.record.root == rank();
  const auto before = [&](std::span<const std::int64_t> counts) {
    return std::accumulate(counts.begin(), counts.begin() + rank(), std::int64_t{0});
  };
  switch (call.collective) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::broadcast:
      return operation.set_windows({output.data(), 0}, {output.data(), 0});
    case CollectiveKind::reduce_scatter:
      return operation.work_on_copy({offset(rank()), output.numel()});
    case CollectiveKind::all_gather:
      operation.set_windows({output.data(), 0}, {output.data(), 0});
      return operation.copy_first({0, input.numel()}, offset(rank()));
    case CollectiveKind::all_to_all:
      operation.set_windows({input.data(), 0}, {output.data(), 0});
      if (overlap_in_memory(output, input)) operation.send_from_copy();
      return operation.copy_first(
          {before(call.send_counts), call.send_counts[static_cast<std::size_t>(rank())]},
          before(call.recv_counts));
    case CollectiveKind::reduce:  // Other members' buffers keep their values.
      return operation.work_on_copy({0, at_root ? output.numel() : 0});
    case CollectiveKind::gather:
      if (!at_root) return operation.set_windows({input.data(), offset(rank())}, {});
      operation.set_windows({}, {output.data(), 0});
      return operation.copy_first({0, input.numel()}, offset(rank()));
    case CollectiveKind::scatter:
      if (!at_root) return operation.set_windows({}, {output.data(), offset(rank())});
      operation.set_windows({input.data(), 0}, {output.data(), offset(rank())});
      return operation.copy_first({offset(rank()), output.numel()}, offset(rank()));
    case CollectiveKind::barrier:
    case CollectiveKind::split:
      return operation.set_barrier();
  }
}

void MessageCommunicator::choose_carrier(MessageOperation& operation, const Call& call) const {
  // Libraries count the elements of parts in 32 bits; what is more goes by our own messages.
  const CollectiveRow& row = row_of(call.collective);
  const bool countable = call.record.count <= std::numeric_limits<std::int32_t>::max();
  if (!rank_.options().native_collectives || !stream_.transport->has_collectives() || !countable ||
      row.path == CollectivePath::none) {
    return;
  }
  std::vector<std::int64_t> counts(call.send_counts.begin(), call.send_counts.end());
  for (int member = 0; row.in_chunks() && member < size(); ++member) {
    counts.push_back(offset(member + 1) - offset(member));
  }
  operation.set_native(row, std::move(counts), {call.recv_counts.begin(), call.recv_counts.end()});
}

Work MessageCommunicator::transfer(const Call& call) {
  const Operation operation = make(call, plan_transfer(call.halves), {}, {});
  operation->set_parts(call.halves);
  if (!rank_.options().buffered_sends) operation->set_rendezvous();
  return launch(operation);
}

std::unique_ptr<Communicator> MessageCommunicator::split(int color, int key,
                                                         const std::string& name, CallSite site) {
  ArgumentCheck(*this, collective::kSplit.name, site).color(color);
  // Others may need this process's messages to get here: they continue until all have.
  barrier({.label = rank_.keep_name(name), .traffic = TrafficClass::scalar}, site).wait();
  std::unique_ptr<Transport> part = stream_.transport->split(color, key);
  if (part == nullptr) return nullptr;
  return std::make_unique<MessageCommunicator>(rank_, rank_.open(std::move(part), name));
}

}  // namespace shardsim

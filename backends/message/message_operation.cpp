#include "backends/message/message_operation.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "backends/reduce.hpp"

namespace shardsim {

namespace {

using StepKind = MessageStep::Kind;

}  // namespace

MessageOperation::MessageOperation(const CallRecord& record, std::int64_t sequence,
                                   MessagePlan plan, const Tensor& output, const Tensor& input)
    : ProcessOperation(record, sequence),
      plan_(std::move(plan)),
      output_(output),
      input_(input),
      element_bytes_(size_of(record.dtype)) {}

void MessageOperation::set_windows(const Window& source, const Window& target) {
  source_ = source;
  target_ = target;
}

void MessageOperation::set_native(CollectiveKind kind, std::vector<std::int64_t> counts,
                                  std::vector<std::int64_t> receive_counts) {
  native_ =
      std::make_unique<Native>(Native{kind, std::move(counts), std::move(receive_counts), {}});
  copy_ = Copy::none;
  copied_from_ = {};
}

void MessageOperation::copy_first(const Slice& from, std::int64_t to) {
  copied_from_ = from;
  copied_to_ = to;
}

std::byte* MessageOperation::place_of(const MessageStep& message) const {
  if (message.buffer >= 0) {
    return parts_[static_cast<std::size_t>(message.buffer)].data() + message.slice.begin;
  }
  return at(message.kind == StepKind::send ? source_ : target_, message.slice.begin);
}

void MessageOperation::begin() {
  begun_ = true;
  if (copy_ != Copy::none) {
    work_.assign(input_.data(), input_.data() + input_.num_bytes());
    source_ = {work_.data(), 0};
    if (copy_ == Copy::work) target_ = source_;
  }
  if (copied_from_.count > 0) {
    copy_bytes(at(target_, copied_to_), input_.data() + copied_from_.begin * element_bytes_,
               bytes_of(copied_from_));
  }
}

void MessageOperation::post(Transport& transport, const MessageStep& message) {
  const std::int64_t bytes = bytes_of(message.slice);
  Transport::Request request = 0;
  if (message.kind == StepKind::send) {
    request = transport.send(message.peer, place_of(message), bytes, rendezvous_);
  } else if (message.kind == StepKind::receive) {
    request = transport.receive(message.peer, place_of(message), bytes);
  } else {
    arrived_.emplace_back(static_cast<std::size_t>(bytes));
    request = transport.receive(message.peer, arrived_.back().data(), bytes);
  }
  flights_.push_back({.request = request, .message = &message});
  count(transport.rank(), message, element_bytes_);
}

void MessageOperation::post_round(Transport& transport) {
  const MessageRound& round = plan_.rounds[round_];
  // Receives first: what arrives finds its place.
  for (const bool sends : {false, true}) {
    for (const MessageStep& message : round.messages) {
      if ((message.kind == StepKind::send) == sends) post(transport, message);
    }
  }
}

void MessageOperation::post_native(Transport& transport) {
  count(transport.rank(), plan_, element_bytes_);
  plan_.rounds.clear();
  // Where the root alone has the result, others keep what is in their buffers.
  const CollectiveRow& row = row_of(native_->kind);
  const bool in_place = row.in_place() && row.root != RootRole::target;
  if (!in_place && input_.has_data()) {  // Roots alone have one in some.
    native_->in.assign(input_.data(), input_.data() + input_.num_bytes());
  }
  const NativeCall call = {
      .kind = native_->kind,
      .root = record_.root,
      .dtype = record_.dtype,
      .reduces = record_.reduces,
      .reduction = record_.reduce == ReduceOp::avg ? ReduceOp::sum : record_.reduce,
      .in = native_->in.data(),
      .out = output_.has_data() ? output_.data() : nullptr,
      .count = record_.count,
      .counts = native_->counts,
      .receive_counts = native_->receive_counts};
  flights_.push_back({.request = transport.collective(call)});
}

void MessageOperation::end_native(int self) {
  const bool has_result = record_.root < 0 || record_.root == self;
  if (divisor_ > 1 && has_result) {
    divide_chunk(output_.data(), output_.numel(), record_.dtype, divisor_);
  }
  kept_ = {};  // It stands where it belongs.
  native_.reset();
}

void MessageOperation::end_round() {
  flights_.clear();
  if (is_barrier_) return;
  const MessageRound& round = plan_.rounds[round_++];
  std::size_t next = 0;
  for (const MessageStep& message : round.messages) {
    if (message.kind != StepKind::receive_reduced) continue;
    std::byte* own = at(target_, message.slice.begin);
    const std::array<const std::byte*, 2> inputs = {arrived_[next++].data(), own};
    // An average is a sum until all is in.
    const ReduceOp op = record_.reduce == ReduceOp::avg ? ReduceOp::sum : record_.reduce;
    reduce_chunk(inputs, own, message.slice.count, record_.dtype, op, ReductionOrder::rank, 0);
  }
  arrived_.clear();
  if (divisor_ > 1 && round.completed.count > 0) {
    divide_chunk(at(target_, round.completed.begin), round.completed.count, record_.dtype,
                 divisor_);
  }
}

void MessageOperation::finish() {
  if (kept_.count > 0) {
    copy_bytes(output_.data(), at(target_, kept_.begin), bytes_of(kept_));
  }
  // The buffers and the operation before it are no longer needed.
  output_ = {};
  input_ = {};
  parts_.clear();
  work_ = {};
  after_.reset();
  ended_ = true;
}

bool MessageOperation::advance(Transport& transport) {
  bool moved = false;
  if (!begun_) {
    begin();
    moved = true;
    if (is_barrier_) flights_.push_back({.request = transport.barrier()});
    if (native_) post_native(transport);
  }
  while (!ended_) {
    if (flights_.empty()) {
      if (round_ == plan_.rounds.size()) {
        finish();
        return true;
      }
      post_round(transport);
    }
    bool all_done = true;
    for (Flight& flight : flights_) {
      if (!flight.done && is_done(transport, flight)) flight.done = moved = true;
      all_done &= flight.done;
    }
    if (!all_done) return moved;
    moved = true;
    if (native_) {
      flights_.clear();
      end_native(transport.rank());
    } else {
      end_round();
    }
  }
  return moved;
}

bool MessageOperation::is_done(Transport& transport, const Flight& flight) {
  try {
    return transport.done(flight.request);
  } catch (const WrongSize& error) {
    if (flight.message == nullptr) throw;
    throw WrongSize(error.what(), flight.message->peer);
  }
}

std::vector<int> MessageOperation::awaited_peers() const {
  std::vector<int> peers;
  for (const Flight& flight : flights_) {
    if (!flight.done && flight.message != nullptr) peers.push_back(flight.message->peer);
  }
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

}  // namespace shardsim

#include "sim/app/desk/search/priced_group.hpp"

#include <algorithm>

#include "sim/kernel/error.hpp"

namespace shardsim {

PricedGroup::PricedGroup(ProbeClock& clock, NetworkModel* network, const GroupLayout& layout,
                         Algorithm algorithm, std::string name)
    : clock_(clock),
      network_(network),
      layout_(layout),
      tree_(layout),
      algorithm_(algorithm),
      name_(std::move(name)) {}

void PricedGroup::wait(void* operation) {
  const Time then = max(clock_.now, *static_cast<Time*>(operation));
  clock_.waited += then - clock_.now;
  clock_.now = then;
}

void PricedGroup::abandon(void* /*operation*/) noexcept {}

Work PricedGroup::post(Time duration, const CallOptions& options) {
  const Time ready =
      options.after == nullptr ? clock_.now : *static_cast<Time*>(options.after->operation());
  free_ = max(free_, ready) + duration;
  return {*this, &ends_.emplace_back(free_)};
}

Work PricedGroup::collective(CollectiveKind kind, std::int64_t bytes, std::int64_t largest_chunk,
                             const CallOptions& options) {
  if (network_ == nullptr) return post(Time(), options);
  CollectiveRequest request;
  request.kind = kind;
  request.layout = &layout_;
  request.algorithm = algorithm_;
  if (kind == CollectiveKind::all_reduce) request.tree = &tree_;
  request.bytes = bytes;
  request.largest_chunk = largest_chunk;
  return post(network_->collective(request, clock_.now).duration, options);
}

Work PricedGroup::all_reduce(const Tensor& buffer, ReduceOp /*op*/, const CallOptions& options,
                             CallSite /*site*/) {
  const std::int64_t width = size_of(buffer.dtype());
  return collective(CollectiveKind::all_reduce, buffer.num_bytes(),
                    chunk_size(buffer.numel(), size(), 0) * width, options);
}

Work PricedGroup::reduce_scatter(const Tensor& output, const Tensor& input, ReduceOp /*op*/,
                                 const CallOptions& options, CallSite /*site*/) {
  return collective(CollectiveKind::reduce_scatter, input.num_bytes(), output.num_bytes(), options);
}

Work PricedGroup::all_gather(const Tensor& output, const Tensor& input, const CallOptions& options,
                             CallSite /*site*/) {
  return collective(CollectiveKind::all_gather, output.num_bytes(), input.num_bytes(), options);
}

// A run counts no bytes of the whole for these; the largest part decides.
Work PricedGroup::all_to_all(const Tensor& /*output*/, const Tensor& input,
                             std::span<const std::int64_t> send_counts,
                             std::span<const std::int64_t> /*recv_counts*/,
                             const CallOptions& options, CallSite /*site*/) {
  std::int64_t largest = input.numel() / size();
  for (const std::int64_t count : send_counts) largest = std::max(largest, count);
  return collective(CollectiveKind::all_to_all, 0, largest * size_of(input.dtype()), options);
}

Work PricedGroup::broadcast(const Tensor& buffer, int /*root*/, const CallOptions& options,
                            CallSite /*site*/) {
  return collective(CollectiveKind::broadcast, buffer.num_bytes(), buffer.num_bytes(), options);
}

Work PricedGroup::reduce(const Tensor& buffer, ReduceOp /*op*/, int /*root*/,
                         const CallOptions& options, CallSite /*site*/) {
  return collective(CollectiveKind::reduce, buffer.num_bytes(), buffer.num_bytes(), options);
}

Work PricedGroup::gather(const Tensor& /*output*/, const Tensor& /*input*/, int /*root*/,
                         const CallOptions& options, CallSite /*site*/) {
  return post(Time(), options);
}

Work PricedGroup::scatter(const Tensor& /*output*/, const Tensor& /*input*/, int /*root*/,
                          const CallOptions& options, CallSite /*site*/) {
  return post(Time(), options);
}

Work PricedGroup::barrier(const CallOptions& options, CallSite /*site*/) {
  return post(Time(), options);
}

Time PricedGroup::transfer(const Tensor& buffer, int peer) const {
  if (network_ == nullptr) return {};
  return network_->transfer(layout_.members[0], layout_.members[static_cast<std::size_t>(peer)],
                            buffer.num_bytes(), clock_.now);
}

Work PricedGroup::send(const Tensor& buffer, int peer, const CallOptions& options,
                       CallSite /*site*/) {
  return post(transfer(buffer, peer), options);
}

Work PricedGroup::recv(const Tensor& buffer, int peer, const CallOptions& options,
                       CallSite /*site*/) {
  return post(transfer(buffer, peer), options);
}

Work PricedGroup::batch(std::span<const P2pOp> operations, const CallOptions& options,
                        CallSite /*site*/) {
  Time longest;
  for (const P2pOp& operation : operations) {
    longest = max(longest, transfer(operation.buffer, operation.peer));
  }
  return post(longest, options);
}

std::unique_ptr<Communicator> PricedGroup::split(int /*color*/, int /*key*/,
                                                 const std::string& name, CallSite /*site*/) {
  throw Error(ExitCode::internal, "E7008", "the probe of " + name_ + " is split for " + name,
              "please report this scenario");
}

}  // namespace shardsim

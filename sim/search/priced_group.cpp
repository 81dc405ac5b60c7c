#include "sim/search/priced_group.hpp"

#include <algorithm>

#include "sim/kernel/error.hpp"

#include "backends/call.hpp"

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

Work PricedGroup::take(Time duration, const CallOptions& options) {
  const Time ready =
      options.after == nullptr ? clock_.now : *static_cast<Time*>(options.after->operation());
  free_ = max(free_, ready) + duration;
  return {*this, &ends_.emplace_back(free_)};
}

Work PricedGroup::post(const Call& call) {
  Time duration;
  if (network_ != nullptr && call.kind == CallKind::collective) duration = duration_of(call);
  for (const P2pOp& half : call.halves) duration = max(duration, transfer(half));
  return take(duration, *call.options);
}

Time PricedGroup::duration_of(const Call& call) const {
  CollectiveRequest request;
  const CollectiveRow& row = row_of(call.collective);
  request.kind = row;
  request.layout = &layout_;
  request.algorithm = algorithm_;
  const Tensor& output = *call.output;
  const Tensor& input = *call.input;
  const std::int64_t width = size_of(call.record.dtype);
  if (row.path == CollectivePath::star || row.path == CollectivePath::none) return {};
  if (row.path == CollectivePath::pairs) {
    // A run counts no bytes of the whole buffer; the largest part decides.
    request.largest_chunk =
        std::max(input.numel() / size(),
                 *std::max_element(call.send_counts.begin(), call.send_counts.end())) *
        width;
  } else {
    request.bytes = std::max(input.num_bytes(), output.num_bytes());
    request.largest_chunk = std::min(input.num_bytes(), output.num_bytes());
  }
  if (row.reduces_to_all()) {
    request.tree = &tree_;
    request.largest_chunk = chunk_size(input.numel(), size(), 0) * width;
  }
  return network_->collective(request, clock_.now).duration;
}

Time PricedGroup::transfer(const P2pOp& half) const {
  if (network_ == nullptr) return {};
  return network_->transfer(layout_.members[0],
                            layout_.members[static_cast<std::size_t>(half.peer)],
                            half.buffer.num_bytes(), clock_.now);
}

std::unique_ptr<Communicator> PricedGroup::split(int /*color*/, int /*key*/,
                                                 const std::string& name, CallSite /*site*/) {
  throw Error(ExitCode::internal, "E7008", "the probe of " + name_ + " is split for " + name,
              "please report this scenario");
}

}  // namespace shardsim

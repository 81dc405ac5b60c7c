#include "sim/search/priced_group.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/kernel/error.hpp"

#include "backends/collective_shape.hpp"

namespace shardsim {

namespace {

[[noreturn]] void refuse_probe(const std::string& what) {
  throw Error(ExitCode::internal, "E7008", "the probe of a layer " + what,
              "please report this scenario");
}

}  // namespace

PricedGroup::PricedGroup(ProbeClock& clock, NetworkModel* network, const Cluster& cluster,
                         std::vector<int> members, int rank, Algorithm algorithm, std::string name)
    : clock_(clock),
      network_(network),
      cluster_(cluster),
      layout_(cluster, std::move(members)),
      rank_(rank),
      tree_(layout_),
      algorithm_(algorithm),
      name_(std::move(name)) {}

Work PricedGroup::post(const Call& call) {
  Time duration;
  if (network_ != nullptr && call.kind == CallKind::collective) duration = duration_of(call);
  for (const P2pOp& half : call.halves) duration = max(duration, transfer(half));
  return take(duration, *call.options);
}

std::unique_ptr<Communicator> PricedGroup::subgroup(const RankSpan& members,
                                                    const std::string& name, CallSite /*site*/) {
  if (members.size == 0) return nullptr;
  std::vector<int> ranks;
  for (int member = 0; member < members.size; ++member) {
    ranks.push_back(layout_.members[static_cast<std::size_t>(members.rank(member))]);
  }
  return std::make_unique<PricedGroup>(clock_, nullptr, cluster_, std::move(ranks),
                                       members.member_of(rank_), algorithm_, name);
}

std::unique_ptr<Communicator> PricedGroup::split(int /*color*/, int /*key*/,
                                                 const std::string& name, CallSite /*site*/) {
  refuse_probe("splits " + name_ + " for " + name);
}

void PricedGroup::wait(void* operation) {
  const Time then = max(clock_.now, *static_cast<Time*>(operation));
  clock_.waited += then - clock_.now;
  clock_.now = then;
}

Work PricedGroup::take(Time duration, const CallOptions& options) {
  const Time ready =
      options.after == nullptr ? clock_.now : *static_cast<Time*>(options.after->operation());
  free_ = max(free_, ready) + duration;
  return {*this, &ends_.emplace_back(free_)};
}

Time PricedGroup::duration_of(const Call& call) const {
  const CollectiveRow& row = row_of(call.collective);
  if (row.path == CollectivePath::star || row.path == CollectivePath::none) return {};
  const std::int64_t width = size_of(call.record.dtype);
  CollectiveRequest request = request_of({.row = &row,
                                          .size = size(),
                                          .count = call.record.count,
                                          .width = width,
                                          .counts = call.options->counts},
                                         layout_, &tree_, algorithm_);
  if (row.path == CollectivePath::pairs) {
    // A run counts no bytes of the whole buffer; the largest part decides.
    request.largest_chunk =
        std::max(call.input->numel() / size(),
                 *std::max_element(call.send_counts.begin(), call.send_counts.end())) *
        width;
  }
  return network_->collective(request, clock_.now).duration;
}

Time PricedGroup::transfer(const P2pOp& half) const {
  if (network_ == nullptr) return {};
  return network_->transfer(layout_.members[static_cast<std::size_t>(rank_)],
                            layout_.members[static_cast<std::size_t>(half.peer)],
                            half.buffer.num_bytes(), clock_.now);
}

std::unique_ptr<Communicator> PricedWorld::subgroup(const RankSpan& members,
                                                    const std::string& name, CallSite /*site*/) {
  std::vector<int> ranks;
  for (int member = 0; member < members.size; ++member) ranks.push_back(members.rank(member));
  return std::make_unique<PricedGroup>(
      prices_.clock, prices_.is_priced(name) ? &prices_.network : nullptr, prices_.cluster,
      std::move(ranks), members.member_of(rank_), prices_.algorithm, name);
}

Work PricedWorld::post(const Call& call) {
  refuse_probe(std::string("calls ") + call.record.name + " of all ranks");
}

std::unique_ptr<Communicator> PricedWorld::split(int /*color*/, int /*key*/,
                                                 const std::string& name, CallSite /*site*/) {
  refuse_probe("splits all ranks for " + name);
}

}  // namespace shardsim

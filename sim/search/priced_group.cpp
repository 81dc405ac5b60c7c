#include "sim/search/priced_group.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/kernel/error.hpp"

#include "backends/collective_shape.hpp"

#include "strategies/named_groups.hpp"

namespace shardsim {

namespace {

[[noreturn]] void refuse_probe(const std::string& what) {
  throw Error(ExitCode::internal, "E7008", "the probe of a layer " + what,
              "please report this scenario");
}

}  // namespace

int token_stream_of(const std::string& name) {
  const std::array<NamedGroup, kNumTokenStreams> groups = {named_group::kEp, named_group::kEpAcross,
                                                           named_group::kEpInside};
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (name == groups.at(i).name) return static_cast<int>(i);
  }
  return -1;
}

Time TokenTime::longest() const { return *std::ranges::max_element(under_way); }

TokenTime& TokenTime::operator+=(const TokenTime& other) {
  waited += other.waited;
  at_once += other.at_once;
  for (std::size_t i = 0; i < under_way.size(); ++i) under_way.at(i) += other.under_way.at(i);
  return *this;
}

TokenTime operator-(TokenTime later, const TokenTime& earlier) {
  later.waited -= earlier.waited;
  later.at_once -= earlier.at_once;
  for (std::size_t i = 0; i < later.under_way.size(); ++i) {
    later.under_way.at(i) -= earlier.under_way.at(i);
  }
  return later;
}

PricedGroup::PricedGroup(ProbeClock& clock, NetworkModel* network, const Cluster& cluster,
                         std::vector<int> members, int rank, Algorithm algorithm, std::string name)
    : clock_(clock),
      network_(network),
      cluster_(cluster),
      layout_(cluster, std::move(members)),
      rank_(rank),
      tree_(layout_),
      algorithm_(algorithm),
      name_(std::move(name)),
      under_way_(clock.under_way.emplace_back()),
      token_stream_(token_stream_of(name_)) {}

Work PricedGroup::post(const Call& call) {
  Time duration;
  if (network_ != nullptr && call.kind == CallKind::collective) duration = duration_of(call);
  for (const P2pOp& half : call.halves) duration = max(duration, transfer(half));
  return take(duration, call);
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
  const Posted& posted = *static_cast<const Posted*>(operation);
  const Time then = max(clock_.now, posted.end);
  const Time waited = then - clock_.now;
  const bool is_at_once = posted.at == clock_.now && posted.num_told == clock_.num_told;
  const Time at_once = is_at_once ? min(waited, posted.duration) : Time();
  clock_.waited += waited;
  clock_.waited_at_once += at_once;
  if (token_stream_ >= 0) {
    clock_.tokens.waited += waited;
    clock_.tokens.at_once += at_once;
    clock_.tokens.under_way.at(static_cast<std::size_t>(token_stream_)) += posted.duration;
  }
  if (posted.counts) {
    under_way_.time += posted.duration;
    ++under_way_.calls;
  }
  clock_.now = then;
}

Work PricedGroup::take(Time duration, const Call& call) {
  const Work* const after = call.options->after;
  const Time ready =
      after == nullptr ? clock_.now : static_cast<const Posted*>(after->operation())->end;
  free_ = max(free_, ready) + duration;
  const bool counts = clock_.counts && call.kind == CallKind::collective;
  return {*this,
          &calls_.emplace_back(Posted{clock_.now, free_, duration, clock_.num_told, counts})};
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

#include "sim/real/simulated_rank.hpp"

#include <algorithm>
#include <utility>

namespace shardsim {

namespace {

void add_group(const FiberGroup& group, int rank, std::vector<GroupTraffic>& groups) {
  const std::vector<int>& members = group.layout().members;
  const auto self = std::find(members.begin(), members.end(), rank);
  if (self == members.end()) return;
  const auto member = static_cast<int>(self - members.begin());
  GroupTraffic traffic{group.name(), members, group.counters(member), {}, {}};
  for (const auto& [ends, counts] : group.links()) {
    if (ends.first == member || ends.second == member) traffic.links[ends] = counts;
  }
  // The group knows this only as a whole, so its first member reports it.
  if (member == 0) traffic.by_operation = group.sent_by_operation();
  groups.push_back(std::move(traffic));
}

}  // namespace

RankFigures simulate_rank(const Experiment& experiment, int rank, const SimulatedAs& as) {
  const ParallelPlan& plan = experiment.plan();
  FiberOptions options = experiment.world();
  options.has_data = true;
  options.reduction_order = as.order;
  if (as.rings_only) options.all_reduce_algorithm = Algorithm::ring;
  FiberWorld world(std::move(options));
  RankFigures figures;
  world.run([&](Runtime& runtime, Communicator& everyone) {
    Mesh mesh(everyone, plan.options().mesh);
    TrainingObserver unseen;
    const bool shown = everyone.rank() == rank;
    plan.train_rank(runtime, mesh, shown ? figures.image : unseen);
    if (!shown) return;
    figures.peak_bytes = runtime.ledger()->peak();
    figures.host_peak_bytes = runtime.host_ledger()->peak();
  });
  for (const FiberGroup& group : world.groups()) add_group(group, rank, figures.groups);
  return figures;
}

std::vector<std::string> parameter_names(const ParallelPlan& plan, const MeshPlace& place) {
  std::vector<std::string> names;
  for (const auto& parameter : plan.part(place).model->parameters())
    names.push_back(parameter.name);
  return names;
}

}  // namespace shardsim

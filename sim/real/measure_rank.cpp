#include "sim/real/measure_rank.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/hash.hpp"

namespace shardsim {

namespace {

// --- Simulation --------------------------------------------------------------------------------

void add_group(const FiberGroup& group, int rank, std::vector<GroupTraffic>& groups) {
  const std::vector<int>& members = group.layout().members;
  const auto self = std::ranges::find(members, rank);
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

// Names of the parameters that the rank at `place` runs, by its own numbers.
std::vector<std::string> parameter_names(const ParallelPlan& plan, const MeshPlace& place) {
  std::vector<std::string> names;
  for (const auto& parameter : plan.part(place).model->parameters())
    names.push_back(parameter.name);
  return names;
}

// --- Comparison --------------------------------------------------------------------------------

struct GroupSum {
  TrafficCounters counters;
  LinkTable links;
  SentByOperation by_operation;
};
// The order of groups differs between run and simulation, so they are matched by name and members.
using GroupSums = std::map<std::pair<std::string, std::vector<int>>, GroupSum>;

GroupSums sum_up(const std::vector<GroupTraffic>& groups) {
  GroupSums sums;
  for (const GroupTraffic& group : groups) {
    GroupSum& sum = sums[{group.name, group.members}];
    sum.counters += group.counters;
    for (const auto& [operation, bytes] : group.by_operation) sum.by_operation[operation] += bytes;
    for (const auto& [ends, counts] : group.links) {
      LinkCounts& link = sum.links[ends];
      link.sent += counts.sent;
      link.received += counts.received;
      link.messages += counts.messages;
    }
  }
  return sums;
}

std::string describe(const LinkCounts& counts) {
  return fmt::format("{} bytes sent, {} received in {} messages", counts.sent, counts.received,
                     counts.messages);
}

// In the simulation both ends of a link know its bytes; in the run each end knows its own.
LinkCounts end_of(const LinkTable& links, const std::pair<int, int>& ends, int self) {
  const auto it = links.find(ends);
  if (it == links.end()) return {};
  const bool sends = ends.first == self;
  return {.sent = sends ? it->second.sent : 0,
          .received = sends ? 0 : it->second.received,
          .messages = sends ? it->second.messages : 0};
}

void compare_links(const std::string& name, const std::vector<int>& members, int rank,
                   const GroupSum& measured, const GroupSum& simulated, MeasuredRank& report) {
  // Run and simulation distribute padding over links in different ways.
  if (measured.counters.padding_sent + simulated.counters.padding_sent > 0) return;
  std::map<std::pair<int, int>, bool> all;
  for (const auto& [ends, counts] : measured.links) all[ends] = true;
  for (const auto& [ends, counts] : simulated.links) all[ends] = true;
  for (const auto& [ends, unused] : all) {
    const int from = members[static_cast<std::size_t>(ends.first)];
    const int to = members[static_cast<std::size_t>(ends.second)];
    const int self = from == rank ? ends.first : ends.second;
    const LinkCounts here = end_of(measured.links, ends, self);
    const LinkCounts there = end_of(simulated.links, ends, self);
    ++report.num_links;
    if (here.sent == there.sent && here.received == there.received &&
        here.messages == there.messages) {
      continue;
    }
    if (!report.first_link_difference.empty()) continue;
    report.first_link_difference = fmt::format("group {}, rank {} to {}: {}; simulated: {}", name,
                                               from, to, describe(here), describe(there));
  }
}

// Ranks of one group hold the same values; see RunRecord.
std::string replica_group_of(const ParallelPlan& plan, const MeshPlace& place) {
  const ParallelOptions& options = plan.options();
  const MeshShape& mesh = options.mesh;
  const bool sharded = options.zero_stage > 0;
  std::string name = fmt::format("stage {}, shard {}, tp {}", place.pp,
                                 sharded ? mesh.shard_of(place) : 0, place.tp);
  if (options.sync.local.acts()) name += fmt::format(", replica {}", place.dp_replicate);
  if (mesh.experts_apart()) {
    name += fmt::format(", expert shard {}, expert part {}",
                        sharded ? mesh.shard_of(place, WeightKind::expert) : 0,
                        mesh.expert_part_of(place));
  }
  return name;
}

// One hash per step and kind, as "step/kind/hash", over all that an image holds of it, except
// state that its rank alone has.
std::vector<std::string> hashes_of(const StateImage& image) {
  std::map<std::pair<std::int64_t, int>, RollingHash> hashes;
  for (const StateImage::Piece& piece : image.pieces()) {
    if (piece.kind == StateImage::loss) continue;  // Known to the last stage only.
    if (piece.of_rank_alone) continue;
    RollingHash& hash = hashes[{piece.step, piece.kind}];
    hash.add(static_cast<std::uint64_t>(piece.parameter));
    hash.add(static_cast<std::uint64_t>(piece.first));
    for (const double value : piece.values) hash.add(std::bit_cast<std::uint64_t>(value));
  }
  std::vector<std::string> texts;
  for (const auto& [key, hash] : hashes) {
    texts.push_back(fmt::format("{}/{}/{:016x}", key.first, key.second, hash.value()));
  }
  return texts;
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

MeasuredRank compare_rank(const ParallelPlan& plan, int rank, const RankFigures& measured,
                          const RankFigures& simulated) {
  const MeshPlace place = plan.options().mesh.place_of(rank);
  MeasuredRank report;
  report.rank = rank;
  report.replica_group = replica_group_of(plan, place);
  report.values = compare_images(measured.image, simulated.image, parameter_names(plan, place));
  report.peak_bytes = measured.peak_bytes;
  report.host_peak_bytes = measured.host_peak_bytes;
  report.simulated_peak_bytes = simulated.peak_bytes;
  report.simulated_host_peak_bytes = simulated.host_peak_bytes;
  GroupSums here = sum_up(measured.groups);
  GroupSums there = sum_up(simulated.groups);
  for (const auto& [key, sum] : here) there.try_emplace(key);
  for (const auto& [key, expected] : there) {
    const GroupSum& sum = here[key];
    report.groups.push_back(
        {key.first, sum.counters, expected.counters, sum.by_operation, expected.by_operation});
    compare_links(key.first, key.second, rank, sum, expected, report);
  }
  report.hashes = hashes_of(measured.image);
  report.num_expected_hashes = static_cast<std::int64_t>(hashes_of(simulated.image).size());
  return report;
}

RankFigures train_for_real(const RankSetting& setting, ProcessBackend& backend) {
  RankFigures figures;
  ProcessRuntime runtime(backend.rank());
  {
    const std::unique_ptr<Communicator> world = backend.world();
    std::unique_ptr<Communicator> wrapped;
    if (setting.wrap_world) wrapped = setting.wrap_world(*world);
    const ParallelPlan& plan = setting.experiment->plan();
    Mesh mesh(wrapped ? *wrapped : *world, plan.options().mesh);
    plan.train_rank(runtime, mesh, figures.image);
    figures.peak_bytes = runtime.ledger()->peak();
    figures.host_peak_bytes = runtime.host_ledger()->peak();
  }
  backend.finish();
  figures.groups = {backend.traffic().begin(), backend.traffic().end()};
  return figures;
}

MeasuredRank measure_rank(const RankSetting& setting, ProcessBackend& backend) {
  const auto meet = [&] {
    if (setting.meet) setting.meet();
  };
  meet();
  const RankFigures measured = train_for_real(setting, backend);
  meet();
  const ParallelPlan& plan = setting.experiment->plan();
  const int rank = backend.rank();
  const RankFigures simulated =
      simulate_rank(*setting.experiment, rank, {ReductionOrder::wire, setting.rings_only});
  MeasuredRank report = compare_rank(plan, rank, measured, simulated);
  if (setting.other_order) {
    const RankFigures other =
        simulate_rank(*setting.experiment, rank, {ReductionOrder::rank, setting.rings_only});
    report.order_error = compare_images(other.image, simulated.image,
                                        parameter_names(plan, plan.options().mesh.place_of(rank)))
                             .max_rel_error;
  }
  return report;
}

}  // namespace shardsim

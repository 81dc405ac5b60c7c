#include "sim/real/compare_rank.hpp"

#include <bit>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "sim/kernel/hash.hpp"

namespace shardsim {

namespace {

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
    name += fmt::format(", expert shard {}, ep {}",
                        sharded ? mesh.shard_of(place, WeightKind::expert) : 0, mesh.ep_of(place));
  }
  return name;
}

}  // namespace

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

}  // namespace shardsim

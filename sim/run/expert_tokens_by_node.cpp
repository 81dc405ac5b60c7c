#include <vector>

#include <fmt/format.h>

#include "strategies/mesh_groups.hpp"
#include "strategies/model/expert_layer.hpp"

#include "sim/run/decision_file.hpp"

// Records of tokens that go once to each node: in the order of numbers_of(), what a rank sends to
// each expert, what each of its own experts gets, and of each hop, rows to members and from them.
namespace shardsim {

namespace {

// A hop's place among the numbers.
struct HopNumbers {
  RankSpan (*group)(const MeshShape& shape, const MeshPlace& place);
  std::size_t first;
  std::size_t members;
};

std::vector<HopNumbers> hops_of(const MeshShape& mesh, std::size_t experts) {
  std::vector<HopNumbers> hops;
  std::size_t first = experts + experts / static_cast<std::size_t>(mesh.ep);
  const auto add = [&](auto group, int members) {
    if (members == 1) return;
    hops.push_back({group, first, static_cast<std::size_t>(members)});
    first += 2 * hops.back().members;
  };
  add(expert_across_group, mesh.dispatch_nodes);
  add(expert_inside_group, mesh.dispatch_ranks());
  return hops;
}

}  // namespace

std::size_t ExpertTokens::num_numbers_by_node() const {
  const auto experts = static_cast<std::size_t>(scenario_.model.num_experts);
  const HopNumbers last = hops_of(options_.mesh, experts).back();
  return last.first + 2 * last.members;
}

std::optional<std::string> ExpertTokens::find_mismatch_by_node(const DecisionLog& log) const {
  const MeshShape& mesh = options_.mesh;
  const auto experts = static_cast<std::size_t>(scenario_.model.num_experts);
  const std::size_t here = experts / static_cast<std::size_t>(mesh.ep);
  for (int rank = 0; rank < log.num_ranks(); ++rank) {
    const MeshPlace place = mesh.place_of(rank);
    const auto own = static_cast<std::size_t>(mesh.ep_of(place));
    const DecisionLog::Numbers& there = log.numbers_of(rank, kExpertTokens);
    const RankSpan members = expert_group(mesh, place);
    for (std::size_t decision = 0; decision < there.size(); ++decision) {
      for (std::size_t expert = 0; expert < here; ++expert) {
        std::int64_t sent = 0;
        for (int i = 0; i < members.size; ++i) {
          sent += log.numbers_of(members.rank(i), kExpertTokens)[decision][own * here + expert];
        }
        const std::int64_t got = there[decision][experts + expert];
        if (got == sent) continue;
        return fmt::format(
            "decision {} of rank {} is to get {} tokens for expert {}, but {} are sent", decision,
            rank, got, own * here + expert, sent);
      }
      for (const HopNumbers& hop : hops_of(mesh, experts)) {
        const RankSpan group = hop.group(mesh, place);
        const auto self = static_cast<std::size_t>(group.member_of(rank));
        for (std::size_t from = 0; from < hop.members; ++from) {
          const int sender = group.rank(static_cast<int>(from));
          const std::int64_t got = there[decision][hop.first + hop.members + from];
          const std::int64_t sent =
              log.numbers_of(sender, kExpertTokens)[decision][hop.first + self];
          if (got == sent) continue;
          return fmt::format(
              "decision {} of rank {} is to get {} tokens from rank {}, which sends {}", decision,
              rank, got, sender, sent);
        }
      }
    }
  }
  return std::nullopt;
}

}  // namespace shardsim

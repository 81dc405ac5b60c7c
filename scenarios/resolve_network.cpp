#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/kernel/error.hpp"

#include "sim/hardware/collective_rows.hpp"
#include "sim/hardware/nccl/prices.hpp"

#include "scenarios/nccl_platform.hpp"
#include "scenarios/resolve.hpp"
#include "scenarios/stage_places.hpp"

// Checks of NCCL's cost model: it knows the machine, and it has an algorithm left for each
// collective that a run calls. The groups are those of strategies/mesh.cpp; tests/edge compares
// this file with the calls of runs.
namespace shardsim {

namespace {

// The conflict of this machine with NCCL's model; nothing if there is none.
std::optional<UsageError> misfit(const SystemSpec& system) {
  try {
    check(nccl_platform_of(system));
    return std::nullopt;
  } catch (const UsageError& error) {
    return error;
  }
}

// Whether both lists can be read. Errors are reported at their fields.
bool check_selection(Reading& r) {
  bool good = true;
  const NetworkSpec& network = r.scenario.system.network;
  const auto check_list = [&](const char* path, const std::string& algorithms,
                              const std::string& protocols) {
    try {
      if (r.good(path)) NcclSelection(algorithms, protocols);
    } catch (const UsageError& error) {
      r.problem(error.code(), path, error.what(), error.fix());
      good = false;
    }
  };
  check_list("system.nccl.algorithms", network.nccl_algorithms, "");
  check_list("system.nccl.protocols", "", network.nccl_protocols);
  return good;
}

// Users would trust a calibration without effect: it is refused, not warned about. A preset may
// bring one to a scenario that then asks for another model.
void refuse_without_nccl(Reading& r) {
  if (!r.good("system.network_model") || r.scenario.system.network.is_nccl()) return;
  const Scenario untouched;
  for (const Field& field : field_table()) {
    const bool ours = field.path.rfind("system.nccl.", 0) == 0 && field.get != nullptr;
    if (!ours || !written_by_user(r.fields[field.path])) continue;
    if (field.get(r.scenario) == field.get(untouched)) continue;
    r.problem("E0408", field.path,
              field.path + " acts on NCCL's prices, and system.network_model is " +
                  r.scenario.system.network.model,
              "set system.network_model to nccl, or leave it out");
  }
}

constexpr const char* kPcie = "system.pcie_gb_per_s";

// REQUIRES: the machine has no problems.
void resolve_pcie(Reading& r) {
  NetworkSpec& network = r.scenario.system.network;
  if (!network.is_nccl() || r.given(kPcie)) return;
  const NcclPlatform platform = nccl_platform_of(r.scenario.system);
  derive(r, kPcie, network.pcie_gb_per_s, pcie_bandwidth(platform).peek());
  r.fields[kPcie].source = "x16 of PCIe generation " + std::to_string(platform.pcie_generation) +
                           ", which the GPU has, in NCCL's table of bandwidths";
}

void resolve_network_model(Reading& r, bool selects) {
  const bool knows_machine =
      selects && (r.good(kPcie) || !r.given(kPcie)) &&
      r.all_good({"system.gpus_per_node", "system.gpu_generation", "system.cpu_vendor",
                  "system.nccl_version", "system.nics_per_node", "system.device.name",
                  "system.intra_node.bandwidth_gb_per_s", "system.inter_node.bandwidth_gb_per_s"});
  NetworkSpec& network = r.scenario.system.network;
  if (!r.given("system.network_model")) {
    if (!r.good("system.kernel_model")) return;
    const bool fits = knows_machine && r.scenario.system.kernel_model == "shapes" &&
                      !misfit(r.scenario.system).has_value();
    derive(r, "system.network_model", network.model, std::string(fits ? "nccl" : "alpha_beta"));
    return;
  }
  if (!r.good("system.network_model") || !network.is_nccl() || !knows_machine) return;
  if (const auto error = misfit(r.scenario.system)) {
    r.problem(error->code(), "system.network_model", error->what(), error->fix());
  }
}

/// Ranks with the same color form a group; a negative color: in no group. `kinds`: its calls.
struct GroupUse {
  std::function<int(int rank)> color;
  std::vector<CollectiveKind> kinds;
};

// The colors of Mesh.
class MeshColors {
 public:
  explicit MeshColors(const MeshShape& shape) : shape_(shape) {}

  [[nodiscard]] int along(int rank, int MeshPlace::*axis) const {
    MeshPlace origin = shape_.place_of(rank);
    origin.*axis = 0;
    return shape_.rank_of(origin);
  }
  // Tensor-parallel ranks with copies of a part, or with each part once.
  [[nodiscard]] int copies(int rank, int number) const {
    return along(rank, &MeshPlace::tp) * shape_.tp + shape_.place_of(rank).tp / number;
  }
  [[nodiscard]] int parts(int rank, int number) const {
    return along(rank, &MeshPlace::tp) * shape_.tp + shape_.place_of(rank).tp % number;
  }
  [[nodiscard]] int owners(int rank, WeightKind kind) const {
    const MeshPlace place = shape_.place_of(rank);
    if (kind == WeightKind::dense) return place.pp * shape_.tp + place.tp;
    return place.pp * shape_.expert_parts() + shape_.expert_part_of(place);
  }
  [[nodiscard]] int shards(int rank, WeightKind kind) const {
    return owners(rank, kind) * shape_.dp_replicate + shape_.place_of(rank).dp_replicate;
  }
  [[nodiscard]] int replicas(int rank, WeightKind kind) const {
    return owners(rank, kind) * shape_.num_shards(kind) +
           shape_.shard_of(shape_.place_of(rank), kind);
  }
  // All parts of a layer's experts; of these, slices of the same experts.
  [[nodiscard]] int experts(int rank) const {
    const MeshPlace place = shape_.place_of(rank);
    return place.pp * shape_.num_owners(WeightKind::expert) +
           shape_.owner_of(place, WeightKind::expert);
  }
  [[nodiscard]] int slices(int rank) const {
    return experts(rank) * shape_.ep + shape_.ep_of(shape_.place_of(rank));
  }
  [[nodiscard]] int ends(int rank) const {
    const int stage = shape_.place_of(rank).pp;
    return stage == 0 || stage == shape_.pp - 1 ? along(rank, &MeshPlace::pp) : -1;
  }

 private:
  const MeshShape& shape_;
};

std::vector<CollectiveKind> if_so(bool condition, std::vector<CollectiveKind> kinds) {
  return condition ? std::move(kinds) : std::vector<CollectiveKind>{};
}

// Whether ranks agree on a value before each update: a norm, or that all gradients are finite.
bool agrees(const TrainingSpec& training) {
  return training.max_grad_norm > 0.0 || training.loss_scaling != LossScaling::Mode::none;
}

std::vector<CollectiveKind> of_tensor_parallel(const Scenario& s) {
  std::vector<CollectiveKind> kinds = {collective::kAllReduce};
  const bool gathers_matrices =
      s.training.uses_muon() && s.training.muon.tensor_parallel == MuonTensorParallel::duplicated;
  if (s.parallelism.sequence_parallel || gathers_matrices) kinds.push_back(collective::kAllGather);
  if (s.parallelism.sequence_parallel) kinds.push_back(collective::kReduceScatter);
  return kinds;
}

std::vector<CollectiveKind> of_context_parallel(const ParallelismSpec& p) {
  const std::span<const CollectiveKind> kinds = context_attention_row(p.cp_attention).collectives;
  return {kinds.begin(), kinds.end()};
}

// The group of all ranks that see different tokens: it sums losses and unsharded gradients.
std::vector<CollectiveKind> of_data(const ParallelismSpec& p) {
  if (p.is_elastic()) return {collective::kSplit};
  if (p.compresses()) return {collective::kAllReduce, collective::kAllGather};
  return {collective::kAllReduce};
}

std::vector<CollectiveKind> of_shards(const Scenario& s) {
  const ParallelismSpec& p = s.parallelism;
  if (p.zero_stage == 0) return if_so(p.trains_apart(), {collective::kAllReduce});
  std::vector<CollectiveKind> kinds = {collective::kReduceScatter, collective::kAllGather};
  if (agrees(s.training)) kinds.push_back(collective::kAllReduce);
  return kinds;
}

void add_weights(const Scenario& s, const MeshColors& colors, WeightKind kind,
                 std::vector<GroupUse>& uses) {
  const ParallelismSpec& p = s.parallelism;
  const bool shards = p.zero_stage > 0;
  const bool is_dense = kind == WeightKind::dense;
  uses.push_back({[=](int rank) { return colors.owners(rank, kind); },
                  is_dense ? of_data(p) : if_so(!shards, {collective::kAllReduce})});
  if (p.is_elastic()) return;
  uses.push_back({[=](int rank) { return colors.shards(rank, kind); }, of_shards(s)});
  uses.push_back({[=](int rank) { return colors.replicas(rank, kind); },
                  if_so(shards || p.trains_apart(), {collective::kAllReduce})});
}

// Groups of the first N data-parallel ranks, one per change; ranks that join get a broadcast.
void add_members(const ParallelismSpec& p, std::vector<GroupUse>& uses) {
  std::int64_t before = 0;
  for (const std::int64_t members : p.elastic_members) {
    std::vector<CollectiveKind> kinds = {collective::kSplit, collective::kAllReduce};
    if (before > 0 && members > before) kinds.push_back(collective::kBroadcast);
    uses.push_back({[=](int rank) { return rank < members ? 0 : -1; }, kinds});
    before = members;
  }
}

// Groups of ranks with copies of key and value heads, of each number of them that layers have. One
// head's are all tensor-parallel ranks.
void add_copies(const Scenario& s, const MeshColors& colors, std::vector<GroupUse>& uses) {
  std::set<std::int64_t> numbers;
  for (const HeadOptions& heads : s.model.kinds_of_heads()) numbers.insert(heads.num_query_groups);
  for (const std::int64_t groups : numbers) {
    if (groups < 2 || groups >= s.parallelism.tp) continue;
    const int copies = static_cast<int>(copies_of_groups(groups, s.parallelism.tp));
    uses.push_back(
        {[=](int rank) { return colors.copies(rank, copies); }, {collective::kAllReduce}});
    uses.push_back(
        {[=](int rank) { return colors.parts(rank, copies); },
         if_so(s.training.uses_muon(), {collective::kAllReduce, collective::kAllGather})});
  }
}

std::vector<GroupUse> uses_of(const Scenario& s, const MeshShape& shape, const MeshColors& colors) {
  const ParallelismSpec& p = s.parallelism;
  const bool votes = agrees(s.training);
  std::vector<GroupUse> uses = {{[](int) { return 0; }, {collective::kSplit}}};
  uses.push_back(
      {[=](int rank) { return colors.along(rank, &MeshPlace::tp); }, of_tensor_parallel(s)});
  add_copies(s, colors, uses);
  uses.push_back(
      {[=](int rank) { return colors.along(rank, &MeshPlace::cp); }, of_context_parallel(p)});
  add_weights(s, colors, WeightKind::dense, uses);
  if (shape.experts_apart()) {
    add_weights(s, colors, WeightKind::expert, uses);
    uses.push_back(
        {[=](int rank) { return colors.experts(rank); }, if_so(votes, {collective::kAllReduce})});
    if (shape.etp > 1) {
      uses.push_back(
          {[=](int rank) { return colors.slices(rank); },
           s.model.moe_capacity_factor > 0.0
               ? std::vector<CollectiveKind>{collective::kAllGather, collective::kReduceScatter}
               : std::vector<CollectiveKind>{collective::kAllGather, collective::kBroadcast,
                                             collective::kReduce}});
    }
  }
  if (p.is_elastic()) add_members(p, uses);
  if (p.pp == 1) return uses;
  std::vector<CollectiveKind> of_stages = {collective::kSplit};
  if (votes) of_stages.push_back(collective::kAllReduce);
  uses.push_back({[=](int rank) { return colors.along(rank, &MeshPlace::pp); }, of_stages});
  uses.push_back({[=](int rank) { return colors.ends(rank); },
                  if_so(s.model.tied_embeddings && stage_placement_of(s) != Placement::v,
                        {collective::kAllReduce})});
  return uses;
}

/// Prices each kind of call once for each placement of groups on nodes.
class Trial {
 public:
  Trial(const SystemSpec& system, Algorithm algorithm)
      : num_ranks_(static_cast<int>(system.ranks)),
        cluster_(cluster_of(system)),
        prices_(cluster_),
        algorithm_(algorithm) {}

  /// Throws UsageError E0407.
  void price(const GroupUse& use) {
    if (use.kinds.empty()) return;
    std::map<int, std::vector<int>> groups;
    for (int rank = 0; rank < num_ranks_; ++rank) {
      const int color = use.color(rank);
      if (color >= 0) groups[color].push_back(rank);
    }
    for (const auto& [color, members] : groups) {
      if (members.size() > 1) price(GroupLayout(cluster_, members), use.kinds);
    }
  }

 private:
  static Cluster cluster_of(const SystemSpec& system) {
    Cluster cluster;
    cluster.num_nodes = static_cast<int>(system.nodes);
    cluster.gpus_per_node = static_cast<int>(system.gpus_per_node);
    cluster.nics_per_node = static_cast<int>(system.network.nics_per_node);
    cluster.nccl = std::make_shared<const NcclPlatform>(nccl_platform_of(system));
    return cluster;
  }

  void price(const GroupLayout& layout, const std::vector<CollectiveKind>& kinds) {
    for (const CollectiveKind kind : kinds) {
      const std::tuple seen{layout.size(), layout.num_nodes, layout.rails, layout.nics, kind};
      if (!seen_.insert(seen).second) continue;
      std::optional<DoubleTree> tree;
      CollectiveRequest request;
      request.kind = kind;
      request.layout = &layout;
      if (row_of(kind).reduces_to_all()) request.tree = &tree.emplace(layout);
      request.algorithm = algorithm_;
      request.bytes = layout.size();
      request.largest_chunk = 1;
      static_cast<void>(prices_.collective(request));
    }
  }

  int num_ranks_;
  Cluster cluster_;
  NcclPrices prices_;
  Algorithm algorithm_;
  std::set<std::tuple<int, int, int, int, CollectiveKind>> seen_;
};

}  // namespace

void resolve_network(Reading& r) {
  const bool selects = check_selection(r);
  resolve_network_model(r, selects);
  if (r.problems.empty()) resolve_pcie(r);
  if (selects) refuse_without_nccl(r);
}

void check_nccl_calls(Reading& r) {
  const Scenario& s = r.scenario;
  const NetworkSpec& network = s.system.network;
  const bool selects = !network.nccl_algorithms.empty() || !network.nccl_protocols.empty();
  // Ring is always there, so a tree alone may be missing where one is asked for.
  const bool asks = s.execution.all_reduce_algorithm != Algorithm::automatic;
  if (!r.problems.empty() || !network.is_nccl() || !(selects || asks)) return;
  const MeshShape shape = mesh_shape_of(s.parallelism);
  const MeshColors colors(shape);
  try {
    Trial trial(s.system, s.execution.all_reduce_algorithm);
    for (const GroupUse& use : uses_of(s, shape, colors)) trial.price(use);
  } catch (const UsageError& error) {
    const char* const path = !network.nccl_algorithms.empty()  ? "system.nccl.algorithms"
                             : !network.nccl_protocols.empty() ? "system.nccl.protocols"
                                                               : "execution.all_reduce_algorithm";
    r.problem(error.code(), path, error.what(), error.fix());
  }
}

}  // namespace shardsim

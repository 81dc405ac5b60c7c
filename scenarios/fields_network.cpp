#include "sim/hardware/nccl/overrides.hpp"

#include "scenarios/field_table.hpp"

// The rows of communication's prices.
namespace shardsim {

namespace {

bool is_nccl(const Scenario& s) { return s.system.network.is_nccl(); }

template <typename Member>
Field network(const char* path, Member member) {
  return field(path, &Scenario::system, &SystemSpec::network, member);
}

// A row that only NCCL's model reads.
template <typename Member>
Field nccl(const char* path, Member member) {
  return network(path, member).acts_when("system.network_model is nccl", is_nccl);
}

// The same, for the link between nodes.
template <typename Member>
Field between(const char* path, Member member) {
  return network(path, member)
      .acts_when("system.network_model is nccl and there are several nodes",
                 [](const Scenario& s) { return is_nccl(s) && s.system.nodes > 1; });
}

// Overrides of NCCL's own choices and constants. Rows of TierCorrection and texts: unlike the rest
// they are refused, not only without effect, if another model prices communication.
template <typename Member>
Field correction(const char* path, TierCorrection NetworkSpec::*tier, Member member) {
  return field(path, &Scenario::system, &SystemSpec::network, tier, member).sourced();
}

Field bandwidth_factor(const char* path, TierCorrection NetworkSpec::*tier) {
  return correction(path, tier, &TierCorrection::bandwidth_factor).above(0, 100).or_else("1");
}

Field added_latency(const char* path, TierCorrection NetworkSpec::*tier) {
  return correction(path, tier, &TierCorrection::added_latency_us)
      .range(kLeastAddedLatency, 1e6)
      .unit("us")
      .or_else("0");
}

std::vector<Field> override_fields() {
  using N = NetworkSpec;
  return {
      network("system.nccl.algorithms", &N::nccl_algorithms)
          .or_else("\"\"")
          .foreign({{"NCCL", "NCCL_ALGO"}})
          .doc("What NCCL may choose from, written as its variable NCCL_ALGO: \"ring,tree\", "
               "\"^nvls\", or with lists of single functions, \"ring;allreduce:tree,nvls\". "
               "Empty: everything. Needs network_model nccl, as all of this section."),
      network("system.nccl.protocols", &N::nccl_protocols)
          .or_else("\"\"")
          .foreign({{"NCCL", "NCCL_PROTO"}})
          .doc("The same of its protocols LL, LL128 and Simple, as NCCL_PROTO."),
      bandwidth_factor("system.nccl.intra_node.bandwidth_factor", &N::intra_node)
          .doc("Measured / priced bandwidth, of groups of one node and messages within it."),
      added_latency("system.nccl.intra_node.added_latency_us", &N::intra_node)
          .doc("Time of each of their operations beside what it is priced at."),
      source_field("system.nccl.intra_node.source"),
      bandwidth_factor("system.nccl.inter_node.bandwidth_factor", &N::inter_node)
          .doc("Measured / priced bandwidth, of groups of several nodes and messages between "
               "them."),
      added_latency("system.nccl.inter_node.added_latency_us", &N::inter_node)
          .doc("Time of each of their operations beside what it is priced at."),
      source_field("system.nccl.inter_node.source"),
      source_field("system.nccl.source"),
  };
}

}  // namespace

std::vector<Field> network_fields() {
  using N = NetworkSpec;
  std::vector<Field> prices = {
      network("system.network_model", &N::model)
          .one_of({"alpha_beta", "nccl"})
          .derived("nccl where kernel_model is shapes and NCCL's model has constants of the GPU, "
                   "else alpha_beta")
          .doc("How communication is priced. alpha_beta: latency + bytes / bandwidth of the two "
               "links. nccl: with the algorithm and protocol that NCCL's cost model chooses; "
               "it has latencies of its own."),
      nccl("system.gpu_generation", &N::gpu_generation)
          .one_of({"by_device_name", "ampere", "hopper", "blackwell"})
          .or_else("\"by_device_name\"")
          .doc("Which constants of NCCL hold. by_device_name: those of the A100, H100 or B200 in "
               "it."),
      between("system.cpu_vendor", &N::cpu_vendor)
          .one_of({"intel", "amd"})
          .or_else("\"intel\"")
          .sourced()
          .doc("Between nodes NCCL has constants for either."),
      nccl("system.nccl_version", &N::nccl_version)
          .one_of({"2.28.9", "2.30.7"})
          .or_else("\"2.30.7\"")
          .doc("Release of NCCL whose constants hold."),
      between("system.nics_per_node", &N::nics_per_node)
          .range(0, 1024)
          .or_else("0")
          .sourced()
          .doc("Network cards of a node; 0: one per GPU. Together they have the inter_node "
               "bandwidth of all its GPUs."),
      between("system.pcie_gb_per_s", &N::pcie_gb_per_s)
          .above(0, 1e6)
          .unit("GB/s")
          .or_auto()
          .derived("that of x16 of the GPU's PCIe in NCCL's table: 24 for ampere, 48 for hopper, "
                   "96 for blackwell")
          .sourced()
          .doc("Between a GPU and its network card, per direction: what a card carries is at most "
               "this."),
      between("system.nodes_per_pod", &N::nodes_per_pod)
          .range(0, kTwoTo40)
          .or_else("0")
          .sourced()
          .doc("Consecutive nodes that reach each other at full bandwidth; 0: all do."),
      between("system.oversubscription", &N::oversubscription)
          .range(1, 1000)
          .or_else("1")
          .sourced()
          .doc("Bandwidth of a pod's nodes / bandwidth from it to the others. Groups of several "
               "pods take so many times as long for their bytes."),
  };
  return joined({prices, override_fields()});
}

}  // namespace shardsim

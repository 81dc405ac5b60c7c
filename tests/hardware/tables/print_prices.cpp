#include "tests/hardware/tables/print_prices.hpp"

#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "sim/hardware/architecture.hpp"
#include "sim/hardware/kernels/kernel_constants.hpp"
#include "sim/hardware/network_model.hpp"
#include "sim/hardware/power.hpp"
#include "sim/hardware/software.hpp"

#include "scenarios/nccl_platform.hpp"

// The prices of two compilers are compared, not judged: sizes are odd on purpose, so that tiles,
// waves and chunks do not come out even.
namespace shardsim::test {

namespace {

constexpr double kGiga = 1e9;
constexpr double kMicro = 1e-6;
constexpr int kNodes = 16;

// The content of a preset: the fields of NCCL's platform, and the cluster.
struct Machine {
  std::string preset;
  SystemSpec system;
  Cluster cluster;
};

using Setter = void (*)(Machine&, const std::string&);

// Puts a number of a preset into the machine.
template <auto set>
void number(Machine& machine, const std::string& text) {
  set(machine, std::stod(text));
}

template <DType dtype>
void peak(Machine& machine, double tflops) {
  machine.cluster.device.peak_flops_per_s.at(static_cast<std::size_t>(dtype)) = tflops * 1e12;
}

const std::map<std::string, Setter>& setters() {
  static const std::map<std::string, Setter> all = {
      {"name", [](Machine& m, const std::string& text) { m.cluster.name = text; }},
      {"gpus_per_node",
       [](Machine& m, const std::string& text) {
         m.system.gpus_per_node = std::stoi(text);
         m.cluster.gpus_per_node = std::stoi(text);
       }},
      {"cpu_vendor",
       [](Machine& m, const std::string& text) { m.system.network.cpu_vendor = text; }},
      {"intra_node.bandwidth_gb_per_s", number<[](Machine& m, double gb) {
         m.system.intra_node.bandwidth_gb_per_s = gb;
         m.cluster.intra_node.bytes_per_s = gb * kGiga;
       }>},
      {"intra_node.latency_us",
       number<[](Machine& m, double us) { m.cluster.intra_node.latency_s = us * kMicro; }>},
      {"intra_node.pair_gb_per_s",
       number<[](Machine& m, double gb) { m.cluster.pair_bytes_per_s = gb * kGiga; }>},
      {"inter_node.bandwidth_gb_per_s", number<[](Machine& m, double gb) {
         m.system.inter_node.bandwidth_gb_per_s = gb;
         m.cluster.inter_node.bytes_per_s = gb * kGiga;
       }>},
      {"inter_node.latency_us",
       number<[](Machine& m, double us) { m.cluster.inter_node.latency_s = us * kMicro; }>},
      {"device.name",
       [](Machine& m, const std::string& text) {
         m.system.device.name = text;
         m.system.device.architecture = architecture_of_device(text).name;
         m.cluster.device.name = text;
       }},
      {"device.memory_gib", [](Machine&, const std::string&) {}},  // Has no price.
      {"device.memory_bandwidth_gb_per_s",
       number<[](Machine& m, double gb) { m.cluster.device.memory_bytes_per_s = gb * kGiga; }>},
      {"device.memory_efficiency",
       number<[](Machine& m, double share) { m.cluster.device.memory_efficiency = share; }>},
      {"device.peak_tflops.fp64", number<peak<DType::fp64>>},
      {"device.peak_tflops.fp32", number<peak<DType::fp32>>},
      {"device.peak_tflops.bf16", number<peak<DType::bf16>>},
      {"device.peak_tflops.fp16", number<peak<DType::fp16>>},
      {"device.peak_tflops.fp8", number<peak<DType::fp8_e4m3>>},
      {"device.peak_tflops.fp4", number<peak<DType::fp4_e2m1>>},
      {"device.matmul_efficiency",
       number<[](Machine& m, double share) { m.cluster.device.matmul_efficiency = share; }>},
      {"device.power_w",  // A limit below it makes the cube root a price.
       number<[](Machine& m, double w) {
         m.cluster.device.clock_share = clock_share(0.7 * w, w);
       }>},
      {"device.kernels",
       [](Machine& m, const std::string& text) {
         m.cluster.device.kernels = find_kernel_constants(text);
       }},
      {"device.kernel_launch_us",
       number<[](Machine& m, double us) { m.cluster.device.launch_s = us * kMicro; }>},
      {"device.host_bandwidth_gb_per_s",
       number<[](Machine& m, double gb) { m.cluster.device.host_bytes_per_s = gb * kGiga; }>},
  };
  return all;
}

std::vector<Machine> read_machines(std::istream& presets) {
  std::vector<Machine> machines;
  for (std::string line; std::getline(presets, line);) {
    const std::size_t space = line.find(' ');
    const std::string field = line.substr(0, space);
    const std::string value = line.substr(space + 1);
    if (field == "preset") {
      machines.push_back({.preset = value});
      continue;
    }
    const auto found = setters().find(field);
    if (found == setters().end() || machines.empty()) {
      throw std::runtime_error("print_prices.cpp does not know the field of a preset: " + field +
                               "; add what it changes to setters()");
    }
    found->second(machines.back(), value);
  }
  return machines;
}

bool is_on_tensor_cores(KernelFamily family) {
  return family == KernelFamily::matrix_product || family == KernelFamily::weight_gradient ||
         family == KernelFamily::attention_forward || family == KernelFamily::attention_backward;
}

ComputeOp operation(KernelFamily family, DType dtype, std::int64_t m, std::int64_t n,
                    std::int64_t k, std::int64_t batch) {
  const bool is_matmul = is_on_tensor_cores(family);
  return {.name = "op",
          .kind = is_matmul ? ComputeKind::matmul : ComputeKind::memory_bound,
          .dtype = dtype,
          .flops = is_matmul ? 2 * batch * m * n * k : 0,
          .bytes = size_of(dtype) * batch * (m * k + k * n + m * n),
          .shape = {family, m, n, k, batch}};
}

void print_operation(std::ostream& out, const std::string& where, const Device& device,
                     const ComputeOp& op) {
  out << fmt::format("{} {} {} {}x{}x{}x{} = {} ps, host {} ps\n", where, name_of(op.shape.family),
                     name_of(op.dtype), op.shape.batch, op.shape.m, op.shape.n, op.shape.k,
                     device.price(op).picoseconds(), device.issue_price(op).picoseconds());
}

bool has_low_products(const Device& device) {
  return device.peak(DType::fp8_e4m3) > 0.0 &&
         (device.kernels == nullptr || device.kernels->fp8_share.value > 0.0);
}

void print_operations(std::ostream& out, const Machine& machine) {
  std::vector<const Software*> rows = {nullptr};
  const bool has_kernels = machine.cluster.device.kernels != nullptr;
  for (const Software& software : all_software()) {
    if (has_kernels) rows.push_back(&software);  // Others have no kernels to choose from.
  }
  for (const Software* software : rows) {
    Device device = machine.cluster.device;
    device.software = software;
    device.attention_drops = true;
    if (software != nullptr) {
      device.host_s_per_kernel = software->host_us_per_kernel.value * kMicro;
    }
    const std::string where =
        machine.preset + " " + (software == nullptr ? "none" : software->name);
    for (std::size_t i = 0; i < kKernelFamilies; ++i) {
      const auto family = static_cast<KernelFamily>(i);
      print_operation(out, where, device, operation(family, DType::bf16, 4096, 3072, 8192, 1));
      print_operation(out, where, device, operation(family, DType::bf16, 1027, 1027, 100, 24));
      print_operation(out, where, device, operation(family, DType::fp32, 333, 7, 1001, 3));
      if (!has_low_products(device) || !is_on_tensor_cores(family)) continue;
      print_operation(out, where, device, operation(family, DType::fp8_e4m3, 4096, 3072, 8192, 1));
    }
  }
}

// The ranks of one node, of all nodes, and one rank of each node.
std::map<std::string, std::vector<int>> groups_of(const Cluster& cluster) {
  std::map<std::string, std::vector<int>> groups;
  groups["node"].resize(static_cast<std::size_t>(cluster.gpus_per_node));
  groups["world"].resize(static_cast<std::size_t>(cluster.num_ranks()));
  for (auto& [name, ranks] : groups) std::iota(ranks.begin(), ranks.end(), 0);
  for (int node = 0; node < cluster.num_nodes; ++node) {
    groups["rail"].push_back(node * cluster.gpus_per_node);
  }
  return groups;
}

void print_network(std::ostream& out, const std::string& where, const Cluster& cluster) {
  const std::unique_ptr<NetworkModel> model = make_network_model(cluster);
  for (const auto& [name, ranks] : groups_of(cluster)) {
    const GroupLayout layout(cluster, ranks);
    const DoubleTree tree(layout);
    for (int i = 0; i < static_cast<int>(CollectiveKind::split); ++i) {  // split has no price.
      for (const std::int64_t bytes : {4LL, 40'004LL, 1'000'000'004LL}) {
        const auto kind = static_cast<CollectiveKind>(i);
        const CollectivePrice price =
            model->collective({.kind = kind,
                               .layout = &layout,
                               .tree = &tree,
                               .bytes = bytes,
                               .largest_chunk = chunk_size(bytes, layout.size(), 0)},
                              Time());
        out << fmt::format("{} {} {} {} B = {} ps, algorithm {}\n", where, name, name_of(kind),
                           bytes, price.duration.picoseconds(), static_cast<int>(price.algorithm));
      }
    }
  }
  for (const int peer : {1, cluster.gpus_per_node, cluster.num_ranks() - 1}) {
    out << fmt::format("{} message to {} = {} ps\n", where, peer,
                       model->transfer(0, peer, 1'000'004, Time()).picoseconds());
  }
}

void print_collectives(std::ostream& out, const Machine& machine) {
  Cluster cluster = machine.cluster;
  cluster.num_nodes = kNodes;
  print_network(out, machine.preset + " alpha_beta", cluster);
  if (machine.cluster.device.kernels == nullptr) return;  // No GPU of NVIDIA: not NCCL's.
  for (const char* version : {"2.28.9", "2.30.7"}) {
    SystemSpec system = machine.system;
    system.network.nccl_version = version;
    cluster.nccl = std::make_shared<const NcclPlatform>(nccl_platform_of(system));
    print_network(out, machine.preset + " nccl " + version, cluster);
  }
  cluster.nodes_per_pod = 4;
  cluster.oversubscription = 3.0;
  print_network(out, machine.preset + " nccl in pods", cluster);
}

}  // namespace

void print_prices(std::istream& presets, std::ostream& out) {
  for (const Machine& machine : read_machines(presets)) {
    print_operations(out, machine);
    print_collectives(out, machine);
  }
}

}  // namespace shardsim::test

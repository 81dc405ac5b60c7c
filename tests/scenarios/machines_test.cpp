#include <map>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/hardware/kernels/kernel_constants.hpp"
#include "sim/hardware/network_model.hpp"

#include "scenarios/nccl_platform.hpp"
#include "scenarios/presets.hpp"
#include "scenarios/stage_places.hpp"

#include "tests/scenarios/support.hpp"

using namespace shardsim;
using namespace shardsim::testing;

// Machines of today. K13: the presets have the figures that their makers publish. Rates are dense,
// TFLOP/s; links are GB/s per GPU and direction.
namespace {

struct Machine {
  const char* name;
  std::int64_t gpus;  // of the domain
  double inside, pair, outside;
  double bf16, fp8;
  std::int64_t memory_mib;  // that a program sees
  std::int64_t sold_gb;     // in round figures
  double memory_gb_per_s;
};

const std::vector<Machine> kOfNvidia = {
    {"hgx-h800", 8, 200, 0, 50, 989, 1979, 81559, 80, 3350},
    {"hgx-h20", 8, 450, 0, 50, 148, 296, 97871, 96, 4000},
    {"gh200", 1, 450, 0, 50, 989, 1979, 97871, 96, 4000},
    {"dgx-b300", 8, 900, 0, 100, 2250, 4500, 275040, 288, 7750},
    {"gb200-nvl72", 72, 900, 0, 50, 2500, 5000, 189471, 186, 8000},
    {"gb300-nvl72", 72, 900, 0, 100, 2500, 5000, 284208, 288, 8000}};

// A link for each partner, or a torus.
const std::vector<Machine> kWithoutSwitch = {
    {"mi300x", 8, 7 * 64, 64, 50, 1307, 2615, 192 * 1024, 192, 5300},
    {"mi325x", 8, 7 * 64, 64, 50, 1307, 2615, 256 * 1024, 256, 6000},
    {"mi355x", 8, 537.6, 76.8, 50, 2516, 5033, 288 * 1024, 288, 8000},  // 7 x 76.8
    {"tpu-v5p", 1024, 6 * 100, 100, 6.25, 459, 459, 95 * 1024, 95, 2765},
    {"tpu-v6e", 256, 4 * 100, 100, 12.5, 918, 918, 32000, 32, 1638},
    {"tpu-v7", 1024, 6 * 100, 100, 12.5, 2307, 4614, 192 * 1024, 192, 7380},
    {"trn2", 16, 512, 128, 25, 667, 1299, 96 * 1024, 96, 2900},
    {"trn2-ultraserver", 64, 640, 128, 25, 667, 1299, 96 * 1024, 96, 2900},
    {"gaudi3", 8, 21 * 25, 75, 75, 1835, 1835, 128 * 1024, 128, 3700}};

Scenario with_machine(const std::string& name, const std::vector<std::string>& overrides = {}) {
  return loaded(R"({"schema_version": 1, "model": "gpt2", "training": {"global_batch_size": 18432},
                    "system": {"nodes": 2, "preset": ")" +
                    name + "\"}}",
                overrides);
}

std::string source_of(const Scenario& s, const std::string& field) {
  for (const NumberSource& number : s.sources) {
    if (number.field == field) return number.source;
  }
  return "";
}

void check_figures(const Machine& machine, const SystemSpec& s) {
  CHECK(s.gpus_per_node == machine.gpus);
  CHECK(s.intra_node.bandwidth_gb_per_s == machine.inside);
  CHECK(s.pair_gb_per_s == machine.pair);
  CHECK(s.inter_node.bandwidth_gb_per_s == machine.outside);
  CHECK(s.device.peak_tflops.bf16 == machine.bf16);
  CHECK(s.device.peak_tflops.fp8 == machine.fp8);
  CHECK(s.device.memory_bytes == machine.memory_mib << 20U);
  CHECK(s.device.memory_bytes >= machine.sold_gb * 1'000'000'000);
  CHECK(s.device.memory_bytes < machine.sold_gb * 1'100'000'000);
  CHECK(s.device.memory_bandwidth_gb_per_s == machine.memory_gb_per_s);
}

// Products in 4 bits; the other machines have none.
const std::map<std::string, double> kFp4 = {{"dgx-b200", 9000},
                                            {"dgx-b300", 14000},
                                            {"gb200-nvl72", 10000},
                                            {"gb300-nvl72", 15000},
                                            {"mi355x", 10066}};

// 256 GPUs of NVL72 racks, of which 64 each are in use.
Scenario four_domains(std::vector<std::string> overrides = {}) {
  for (const char* word : {"system.gpus_per_node=64", "system.nodes=4", "parallelism.tp=8",
                           "training.global_batch_size=256", "model.preset=llama3-8b"}) {
    overrides.emplace_back(word);
  }
  return with_machine("gb200-nvl72", overrides);
}

Cluster cluster_of_domains(const SystemSpec& system) {
  Cluster cluster;
  cluster.num_nodes = static_cast<int>(system.nodes);
  cluster.gpus_per_node = static_cast<int>(system.gpus_per_node);
  cluster.nccl = std::make_shared<const NcclPlatform>(nccl_platform_of(system));
  return cluster;
}

// Every n-th rank gathers 1 GiB.
Time all_gather_time(const Scenario& s, int members, int stride = 1) {
  const Cluster cluster = cluster_of_domains(s.system);
  std::vector<int> ranks;
  for (int i = 0; i < members; ++i) ranks.push_back(i * stride);
  const GroupLayout layout(cluster, ranks);
  CollectiveRequest request;
  request.kind = CollectiveKind::all_gather;
  request.layout = &layout;
  request.bytes = std::int64_t{1} << 30;
  request.largest_chunk = request.bytes / members;
  return make_network_model(cluster)->collective(request, Time()).duration;
}

// Whose share a machine takes, if not its own; "" for its own.
std::string neighbour_in(const std::string& source, const std::string& rest) {
  for (const std::string mark : {"neighbour: ", "assumed: "}) {
    if (source.rfind(mark, 0) == 0) {
      CHECK(source.rfind(rest, mark.size()) == mark.size());
      return source.substr(mark.size() + rest.size());
    }
  }
  CHECK(source.rfind(rest, 0) == 0);
  return "";
}

}  // namespace

TEST_CASE("K13: some machines multiply in 4 bits") {
  for (const std::string& name : builtin_preset_names("systems")) {
    CAPTURE(name);
    const auto found = kFp4.find(name);
    CHECK(with_machine(name).system.device.peak_tflops.fp4 ==
          (found == kFp4.end() ? 0.0 : found->second));
  }
}

TEST_CASE("K13: machines of NVIDIA have its figures, and NCCL prices what they send") {
  for (const Machine& machine : kOfNvidia) {
    INFO(machine.name);
    const SystemSpec s = with_machine(machine.name).system;
    check_figures(machine, s);
    CHECK(s.kernel_model == "shapes");
    CHECK(s.network.model == "nccl");
  }
  const std::map<std::string, int> multiprocessors = {{"hgx-h800", 132},    {"hgx-h20", 78},
                                                      {"gh200", 132},       {"dgx-b300", 148},
                                                      {"gb200-nvl72", 152}, {"gb300-nvl72", 152}};
  for (const auto& [name, number] : multiprocessors) {
    const std::string kernels = with_machine(name).system.device.kernels;
    CHECK(find_kernel_constants(kernels)->multiprocessors.value == number);
  }
  CHECK(nccl_platform_of(with_machine("hgx-h800").system).nvlinks.peek() == 8);
  CHECK(nccl_platform_of(with_machine("gb300-nvl72").system).nvlinks.peek() == 18);
  CHECK(nccl_platform_of(with_machine("dgx-b300").system).generation == GpuGeneration::blackwell);
}

TEST_CASE("K13: machines of others have their figures, and nothing claims NCCL or a kernel") {
  for (const Machine& machine : kWithoutSwitch) {
    INFO(machine.name);
    const SystemSpec s = with_machine(machine.name).system;
    check_figures(machine, s);
    CHECK(s.device.kernels == "none");
    CHECK(s.kernel_model == "roofline");
    CHECK(s.network.model == "alpha_beta");
  }
}

TEST_CASE("a machine without a share of its own names the neighbour whose it is") {
  const std::map<std::string, std::string> products = {
      {"hgx-h800", "the H100's"},        {"gb300-nvl72", "the GB200's"}, {"tpu-v5p", "the H100's"},
      {"tpu-v6e", "the H100's"},         {"tpu-v7", "the H100's"},       {"trn2", "the H100's"},
      {"trn2-ultraserver", "the H100's"}};
  const std::string of_products = "best shape's share, an upper bound for a whole step: ";
  const std::string of_memory = "best kernel's share, an upper bound for a whole step: ";
  std::vector<Machine> all = kOfNvidia;
  all.insert(all.end(), kWithoutSwitch.begin(), kWithoutSwitch.end());
  for (const Machine& machine : all) {
    INFO(machine.name);
    const Scenario s = with_machine(machine.name);
    const auto inherited = products.find(machine.name);
    const std::string whose =
        neighbour_in(source_of(s, "system.device.matmul_efficiency"), of_products);
    CHECK(whose.empty() == (inherited == products.end()));
    if (inherited != products.end()) CHECK(whose.rfind(inherited->second, 0) == 0);
    CHECK_FALSE(neighbour_in(source_of(s, "system.device.memory_efficiency"), of_memory).empty());
  }
}

TEST_CASE("K14: 256 GPUs of NVL72 are four domains of 64, and groups of tp 8 stay inside one") {
  const Scenario s = four_domains();
  CHECK(s.system.ranks == 256);
  CHECK(s.system.network.is_nccl());
  const NcclPlatform platform = nccl_platform_of(s.system);
  CHECK(platform.gpus_per_node == 64);
  CHECK(platform.nics_per_node == 64);
  const MeshShape shape = mesh_shape_of(s.parallelism);
  const Cluster cluster = cluster_of_domains(s.system);
  for (int rank = 0; rank < 256; ++rank) {
    MeshPlace first = shape.place_of(rank);
    first.tp = 0;
    CHECK(cluster.node_of(rank) == cluster.node_of(shape.rank_of(first)));
  }
}

TEST_CASE("K14: what goes between domains is priced by the cards, what stays inside by NVLink") {
  const std::vector<std::string> cards = {"system.inter_node.bandwidth_gb_per_s=25"};
  const std::vector<std::string> links = {"system.intra_node.bandwidth_gb_per_s=450"};
  const double inside = all_gather_time(four_domains(), 8).seconds();
  CHECK(all_gather_time(four_domains(cards), 8).seconds() == inside);
  CHECK(all_gather_time(four_domains(links), 8).seconds() > 1.8 * inside);
  const double between = all_gather_time(four_domains(), 4, 64).seconds();  // One of each domain.
  CHECK(all_gather_time(four_domains(cards), 4, 64).seconds() > 1.8 * between);
  CHECK(all_gather_time(four_domains(links), 4, 64).seconds() == between);
  CHECK(between > 8 * inside);
  // All 256 have 64 cards in each domain, which together are faster than NVLink, until they are
  // not.
  const double whole = all_gather_time(four_domains(), 256).seconds();
  CHECK(all_gather_time(four_domains(links), 256).seconds() > 1.7 * whole);  // Latency stays.
  CHECK(all_gather_time(four_domains({"system.inter_node.bandwidth_gb_per_s=5"}), 256).seconds() >
        1.8 * whole);
}

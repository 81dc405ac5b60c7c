#include "sim/hardware/architecture.hpp"
#include "sim/hardware/kernels/kernel_constants.hpp"
#include "sim/hardware/software.hpp"

#include "scenarios/field_table.hpp"

namespace shardsim {

namespace {

Field peak(const char* path, Tracked<double> PeakTflops::*member) {
  return field(path, &Scenario::system, &SystemSpec::device, &DeviceSpec::peak_tflops, member)
      .range(0, 1e9)
      .or_else("0")
      .unit("TFLOP/s")
      .sourced();
}

template <typename Member>
Field device_field(const char* path, Member member) {
  return field(path, &Scenario::system, &SystemSpec::device, member);
}

// Memory is written in GiB and kept in bytes, so the row converts.
Field memory_gib() {
  Field row = field_internal::typed<double>("system.device.memory_gib");
  row.set = [](Scenario& s, const FieldValue& value) {
    s.system.device.memory_bytes = static_cast<std::int64_t>(std::get<double>(value) * 0x1p30);
  };
  row.get = [](const Scenario& s) {
    return FieldValue(static_cast<double>(s.system.device.memory_bytes) / 0x1p30);
  };
  return row;
}

Field bandwidth(const char* path, LinkSpec SystemSpec::*tier) {
  return field(path, &Scenario::system, tier, &LinkSpec::bandwidth_gb_per_s)
      .above(0, 1e6)
      .unit("GB/s")
      .required()
      .sourced();
}

Field latency(const char* path, LinkSpec SystemSpec::*tier) {
  return field(path, &Scenario::system, tier, &LinkSpec::latency_us)
      .range(0, 1e9)
      .unit("us")
      .required()
      .sourced()
      .doc("Time of an empty message.");
}

bool is_limited(const Scenario& s) { return s.system.device.power_limit_w.peek() > 0.0; }

bool host_takes_time(const Scenario& s) {
  return s.system.host_us_per_kernel > 0 || s.system.host_us_per_call > 0;
}

bool prices_shapes(const Scenario& s) { return s.system.kernel_model == "shapes"; }

template <typename Named>
std::vector<std::string> names_of(std::span<const Named> all, std::vector<std::string> names = {}) {
  for (const Named& one : all) names.emplace_back(one.name);
  return names;
}

// "none", and the names of all entries.
template <typename Named>
std::vector<std::string> none_or(std::span<const Named> all) {
  return names_of(all, {"none"});
}

constexpr auto kKernelConstantList = [](auto& s) -> auto& {
  return s.system.device.kernel_constants;
};

std::vector<Field> power_fields() {
  using D = DeviceSpec;
  return {
      device_field("system.device.power_w", &D::power_w)
          .range(0, 1e6)
          .unit("W")
          .or_else("0")
          .acts_when("power_limit_w is given", is_limited)
          .sourced()
          .doc("Power at which the device has its rates: what a datasheet calls TDP or maximum "
               "power. 0: not known."),
      device_field("system.device.power_limit_w", &D::power_limit_w)
          .range(0, 1e6)
          .unit("W")
          .or_else("0")
          .same_as({{"nvidia-smi", "power_limit"}})
          .doc("Limit of each device's power, at most power_w. Products and attention then run at "
               "a lower clock, by the cube root of the share (docs/decisions/"
               "0087-power-and-graphs.md); memory does not. 0: none.")};
}

std::vector<std::string> names_of_constants() {
  std::vector<std::string> names;
  for (const NamedConstant& constant : constants_of(all_kernel_constants().front())) {
    names.emplace_back(constant.name);
  }
  return names;
}

std::vector<Field> kernel_constant_fields() {
  using C = KernelConstantSpec;
  return {
      item_field("system.device.kernel_constants[].name", kKernelConstantList, &C::name)
          .one_of(names_of_constants())
          .required()
          .doc("The constant, as `--assumptions` lists those of a GPU."),
      item_field("system.device.kernel_constants[].value", kKernelConstantList, &C::value)
          .range(0, 1e6)
          .required()
          .doc("Its value. Shares and rates are at most 1, but for those of attention and of "
               "products in fewer bits, which are over those in 16."),
      item_field("system.device.kernel_constants[].source", kKernelConstantList, &C::source)
          .required()
          .doc("Where the value comes from: results list it."),
  };
}

std::vector<Field> device_fields() {
  using D = DeviceSpec;
  using P = PeakTflops;
  return {
      device_field("system.device.name", &D::name).or_else("\"device\"").doc("Name of the GPU."),
      device_field("system.device.architecture", &D::architecture)
          .one_of(names_of(all_architectures()))
          .derived("that of the GPU in device.name, else other")
          .doc("Generation of the GPU: what libraries keep for themselves, and what NCCL's model "
               "and low precision depend on."),
      memory_gib()
          .above(0, 1048576)
          .unit("GiB (2^30 bytes)")
          .required()
          .sourced()
          .foreign({{"bytes", "memory_bytes"}, {"GB", "memory_gb"}, {"SimuMax", "mem_gbs"}})
          .doc("Memory that a program can use. Datasheets say 80 GB and mean 80 GiB."),
      device_field("system.device.memory_bandwidth_gb_per_s", &D::memory_bandwidth_gb_per_s)
          .above(0, 1e6)
          .unit("GB/s")
          .required()
          .sourced()
          .doc("Peak memory bandwidth."),
      device_field("system.device.memory_efficiency", &D::memory_efficiency)
          .above(0, 1)
          .required()
          .sourced()
          .doc("Share of that bandwidth which the best streaming kernel reaches."),
      peak("system.device.peak_tflops.fp64", &P::fp64).doc("fp64."),
      peak("system.device.peak_tflops.fp32", &P::fp32).doc("fp32, not TF32."),
      peak("system.device.peak_tflops.bf16", &P::bf16).doc("bf16, dense."),
      peak("system.device.peak_tflops.fp16", &P::fp16).doc("fp16, dense."),
      peak("system.device.peak_tflops.fp8", &P::fp8).doc("fp8, dense."),
      peak("system.device.peak_tflops.fp4", &P::fp4).doc("fp4, dense."),
      source_field("system.device.peak_tflops.source"),
      device_field("system.device.matmul_efficiency", &D::matmul_efficiency)
          .above(0, 1)
          .required()
          .sourced()
          .doc(
              "Share of the peak which the best large matrix product reaches. A whole step reaches "
              "less."),
      device_field("system.device.kernel_launch_us", &D::kernel_launch_us)
          .range(0, 1e9)
          .unit("us")
          .required()
          .sourced()
          .doc("Least time of one kernel."),
      device_field("system.device.host_bandwidth_gb_per_s", &D::host_bandwidth_gb_per_s)
          .range(0, 1e6)
          .unit("GB/s")
          .or_else("0")
          .sourced()
          .foreign({{"SimuMax", "pcie_bandwidth"}})
          .doc("Between device and host memory, per GPU and direction: what offloading needs. Half "
               "of what a datasheet calls total; 0: there is no such link."),
      device_field("system.device.kernels", &D::kernels)
          .one_of(none_or(all_kernel_constants()))
          .or_else("\"none\"")
          .acts_when("kernel_model is shapes", prices_shapes)
          .doc("Which GPU's measured constants of kernels apply (docs/decisions/"
               "0032-kernel-cost.md)."),
      source_field("system.device.source"),
  };
}

Field software_field() {
  return field("system.software", &Scenario::system, &SystemSpec::software)
      .one_of(none_or(all_software()))
      .derived(
          "in a plan with kernel_model shapes the first row of scenarios/defaults/software.json "
          "that holds for the layout, else none")
      .doc(
          "Framework whose kernels run the model, and their host time "
          "(docs/decisions/0036-software.md, 0089-software-by-layout.md). none: each operation is "
          "one ideal kernel, and the host costs nothing. Others need kernel_model shapes.");
}

bool fuses_attention(const Scenario& s) {
  const Software* const software = find_software(s.system.software);
  return prices_shapes(s) && (software == nullptr || !software->stores_scores());
}

std::vector<std::string> attention_libraries() {
  std::vector<std::string> names = {"software"};
  for (std::size_t i = 0; i < kAttentionLibraries; ++i) {
    names.emplace_back(name_of(static_cast<AttentionLibrary>(i)));
  }
  return names;
}

Field attention_library_field() {
  return field("system.attention_library", &Scenario::system, &SystemSpec::attention_library)
      .one_of(attention_libraries())
      .or_else("\"software\"")
      .acts_when("kernel_model is shapes, and the software's attention is fused", fuses_attention)
      .doc(
          "The library whose fused attention is priced: FlashAttention-2, FlashAttention-3 or "
          "cuDNN, where they were measured on the GPU. software: that of system.software, or one "
          "that was measured (docs/decisions/0092-attention-by-library.md).");
}

Field host_field(const char* path, Tracked<double> SystemSpec::*member) {
  return field(path, &Scenario::system, member)
      .range(0, 1e9)
      .unit("us")
      .derived("that of the software")
      .sourced();
}

Field kernel_model_field() {
  return field("system.kernel_model", &Scenario::system, &SystemSpec::kernel_model)
      .one_of({"roofline", "shapes"})
      .derived("shapes where device.kernels names a GPU, else roofline")
      .doc(
          "The price of an operation. roofline: its flops or bytes at one achieved share of each "
          "rate. shapes: as kernels of its sizes do on the GPU that device.kernels names.");
}

constexpr const char* kHostTakesTime =
    "the host takes time (system.software, host_us_per_kernel, host_us_per_call)";

// The rows of operation prices, beside the rates of the device.
std::vector<Field> price_fields() {
  using S = SystemSpec;
  return {
      kernel_model_field(),
      software_field(),
      attention_library_field(),
      host_field("system.host_us_per_kernel", &S::host_us_per_kernel)
          .doc("Time of the host to issue one kernel."),
      host_field("system.host_us_per_call", &S::host_us_per_call)
          .doc("Time of the host to post one communication."),
      field("system.cublas_workspace_config", &Scenario::system, &S::cublas_workspace_config)
          .or_else("\"\"")
          .acts_when("the architecture of the device is known to have cuBLAS",
                     [](const Scenario& s) {
                       const Architecture* const known =
                           find_architecture(s.system.device.architecture);
                       return known != nullptr && known->handle_workspace.bytes > 0;
                     })
          .foreign({{"cuBLAS", "CUBLAS_WORKSPACE_CONFIG"}})
          .doc(
              "Workspace of each handle of cuBLAS, written as its variable "
              "CUBLAS_WORKSPACE_CONFIG: \":4096:8\" is 8 times 4096 KiB. Empty: what PyTorch gives "
              "it on the device's architecture (docs/decisions/0075-memory-of-libraries.md)."),
      field("system.overlap_slows_computing", &Scenario::system, &S::overlap_slows_computing)
          .or_else("true")
          .acts_when("kernel_model is shapes", prices_shapes)
          .doc("Computing takes longer while a collective runs beside it, by the "
               "beside_communication of the GPU's constants."),
      field("system.cuda_launch_blocking", &Scenario::system, &S::cuda_launch_blocking)
          .or_else("false")
          .acts_when(kHostTakesTime, host_takes_time)
          .doc("The host waits for every kernel before it issues the next, as with "
               "CUDA_LAUNCH_BLOCKING=1: it never runs ahead."),
      field("system.cuda_graphs", &Scenario::system, &S::cuda_graphs)
          .or_else("\"none\"")
          .acts_when(kHostTakesTime, host_takes_time)
          .foreign({{"Megatron-LM", "cuda_graph_modules"}})
          .doc("What the host launches as CUDA graphs, each for the time of one kernel: "
               "full_iteration, or a list of attn, mlp, mamba, moe_router with commas. Posts of "
               "communication cost as without, but in full_iteration. Memory of graphs is not "
               "counted (docs/decisions/0087-power-and-graphs.md).")};
}

}  // namespace

std::vector<Field> system_fields() {
  using S = SystemSpec;
  const auto system = [](const char* path, auto member) {
    return field(path, &Scenario::system, member);
  };
  std::vector<Field> nodes = {
      system("system.preset", &S::preset)
          .or_else("\"\"")
          .by_others()
          .doc("A machine from `shardsim presets`; the other fields override it."),
      system("system.name", &S::name).derived("the preset's name").doc("Name of the machine."),
      system("system.nodes", &S::nodes)
          .range(1, kTwoTo40)
          .derived("ranks / gpus_per_node; give one of the two")
          .same_as({{"torchrun", "nnodes"}, {"Slurm", "num_nodes"}})
          .doc("Nodes in use."),
      system("system.gpus_per_node", &S::gpus_per_node)
          .range(1, 1024)
          .required()
          .sourced()
          .same_as({{"torchrun", "nproc_per_node"}})
          .foreign({{"Slurm", "ntasks_per_node"}})
          .doc("GPUs, and so ranks, in each node."),
      system("system.ranks", &S::ranks)
          .range(1, kTwoTo53)
          .derived("nodes x gpus_per_node")
          .foreign({{"PyTorch", "world_size"}, {"DeepSpeed", "num_gpus"}})
          .doc("All ranks. Every node is full."),
      bandwidth("system.intra_node.bandwidth_gb_per_s", &S::intra_node)
          .foreign({{"Calculon", "bandwidth"}})
          .doc("Per GPU and direction. Sum over its links; half of what a datasheet calls total."),
      latency("system.intra_node.latency_us", &S::intra_node).foreign({{"Calculon", "latency"}}),
      system("system.intra_node.pair_gb_per_s", &S::pair_gb_per_s)
          .range(0, 1e6)
          .unit("GB/s")
          .or_else("0")
          .acts_when("system.network_model is alpha_beta",
                     [](const Scenario& s) { return !s.system.network.is_nccl(); })
          .sourced()
          .doc("Between two GPUs that no switch joins, per direction: one link of a full mesh or a "
               "torus. A group of n in a node has at most n - 1 of them. 0: any two have all of "
               "bandwidth_gb_per_s."),
      source_field("system.intra_node.source"),
      bandwidth("system.inter_node.bandwidth_gb_per_s", &S::inter_node)
          .foreign({{"NIC datasheets", "nic_gbit_per_s"}})
          .doc("Per GPU and direction; a NIC of 400 Gbit/s per GPU is 50."),
      latency("system.inter_node.latency_us", &S::inter_node),
      source_field("system.inter_node.source"),
  };
  return joined({nodes,
                 device_fields(),
                 kernel_constant_fields(),
                 power_fields(),
                 price_fields(),
                 {source_field("system.source")}});
}

Section kernel_constant_section() {
  return list_section("system.device.kernel_constants",
                      "Measured constants of kernels in place of those of the GPU that `kernels` "
                      "names (`shardsim calibrate kernels`).",
                      kKernelConstantList, "a constant of kernels",
                      R"({"name": "matmul_rate", "value": 0.8, "source": "our GPUs"})");
}

}  // namespace shardsim

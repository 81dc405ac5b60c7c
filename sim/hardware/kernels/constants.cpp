#include "sim/hardware/kernels/kernel_constants.hpp"

namespace shardsim {

namespace {

constexpr const char* kPcieProducts =
    "fit_kernels.py on 156 confirmed rows of gemm_achieved_by_shape.csv, A100 PCIe 80GB "
    "(MooreThreads/SimuMax at 4dcaae5)";
constexpr const char* kB200Products =
    "fit_kernels.py, every source counting as much, on 412 rows of gemm_achieved_by_shape.csv "
    "(MooreThreads/SimuMax at 4dcaae5), 100 of gemm_aiconfigurator.csv (ai-dynamo/aiconfigurator "
    "at 095f58a5) and 298 of gemm_xla_grid.csv (openxla/xla at 8b82b7bc), B200 SXM";
constexpr const char* kPcieAttention =
    "fit_kernels.py on 13 confirmed rows of attention_kernel_throughput.csv, A100 PCIe 80GB "
    "(MooreThreads/SimuMax at 4dcaae5)";
constexpr const char* kB200Attention =
    "fit_kernels.py on 36 confirmed rows of attention_kernel_throughput.csv, B200 SXM "
    "(MooreThreads/SimuMax at 4dcaae5)";
constexpr const char* kTrend =
    "fit_kernels.py on 65 rows of FlashAttention-2 on an A100 SXM in "
    "attention_kernel_throughput.csv, transcribed and not confirmed: no confirmed rows vary heads "
    "and lengths; assumed to hold for every GPU";
constexpr const char* kSxmBest =
    "best shape of a search, 271.2 TFLOP/s (stas00/ml-engineering at 744d01e), less the 7.7 % by "
    "which such a shape beats the prediction on the A100 PCIe";
constexpr const char* kH100Best =
    "best shape of a search, 794.5 TFLOP/s (stas00/ml-engineering at 744d01e), less the 7.7 % by "
    "which such a shape beats the prediction on the A100 PCIe";
constexpr const char* kSxmAttention =
    "neighbour: that of the A100 PCIe times the ratio of their rates of matrix products";
constexpr const char* kH100Attention =
    "neighbour: the A100's, scaled by fit_kernels.py on 20 rows of FlashAttention-2 on an H100 in "
    "attention_kernel_throughput.csv, transcribed and not confirmed: no confirmed rows exist";
constexpr const char* kAsPcie = "neighbour: as fitted on the A100 PCIe 80GB by fit_kernels.py";
constexpr const char* kH100AsPcie =
    "neighbour: as fitted on the A100 PCIe 80GB by fit_kernels.py; no rows of an H100 by shape";
constexpr const char* kH200Products =
    "neighbour: the H100's; \"H200 is the same\" (stas00/ml-engineering at 744d01e)";
constexpr const char* kAsH100 = "neighbour: the H100's; no rows of an H200";
constexpr const char* kUnaligned =
    "SwiGLU of 10922 against five aligned sizes on an H100: 272.7 of 395.9 TFLOP/s "
    "(stas00/ml-engineering at 744d01e); assumed to hold for every GPU";
constexpr const char* kPcieMemory =
    "memory_bandwidth_achieved.csv, A100 PCIe 80GB: fitted by MooreThreads/SimuMax at 4dcaae5, as "
    "a share of 1600 GB/s; here of the datasheet's 1935";
constexpr const char* kB200Memory =
    "memory_bandwidth_achieved.csv, B200 SXM: fitted by MooreThreads/SimuMax at 4dcaae5; of the "
    "permutation the mean of both directions";
constexpr const char* kMemoryAsPcie =
    "neighbour: the A100 PCIe's in memory_bandwidth_achieved.csv, fitted by MooreThreads/SimuMax "
    "at 4dcaae5 as a share of 1600 GB/s; here of the datasheet's 1935";
constexpr const char* kHopperRows =
    "neighbour: the B200's, in memory_bandwidth_achieved.csv; with it 45 layers of experts on an "
    "H100 (moe_grouped_aiconfigurator.csv) are 20 % off in the mean, with the A100 PCIe's 38 %";
constexpr const char* kOverlap =
    "mean slowdown of computing under overlap, on A100, H100 and two AMD GPUs (\"Characterizing "
    "Compute-Communication Overlap in GPU-Accelerated Distributed Deep Learning\", "
    "arXiv:2507.03114, 2025); assumed to hold for every GPU";
constexpr const char* kNoFewerBits = "the GPU has no such products";
constexpr const char* kH100Fewer =
    "best of 202 linear layers on an H100, less the cast of their input at the rates of casts "
    "here: "
    "841 TFLOP/s in bf16, 1536 in fp8, 1261 in blocks, each over its peak of 989 and 1979 "
    "(ai-dynamo/aiconfigurator at 095f58a5, systems/data/h100_sxm/gemm)";
constexpr const char* kB200Fewer =
    "best of 202 linear layers on a B200, less the cast of their input at the rates of casts here: "
    "1687 TFLOP/s in bf16, 3260 in fp8, 3009 in blocks, 4502 in NVFP4, each over its peak of 2250, "
    "4500 and 9000 (ai-dynamo/aiconfigurator at 095f58a5, systems/data/b200_sxm/gemm)";
constexpr const char* kGb200Fewer =
    "best of 202 linear layers on a GB200, less the cast of their input at the rates of casts "
    "here: "
    "1843 TFLOP/s in bf16, 3362 in fp8, 3295 in blocks, 5154 in NVFP4, each over its peak of 2500, "
    "5000 and 10000 (ai-dynamo/aiconfigurator at 095f58a5, systems/data/gb200/gemm)";
constexpr const char* kGb200Casts =
    "median of 13 rows of 2^25 elements and more on a GB200, 2813 and 4781 GB/s of 8000 "
    "(ai-dynamo/aiconfigurator at 095f58a5, systems/data/gb200/quantize)";
constexpr const char* kGb200Products =
    "neighbour: the B200's, of three sources; rows of a GB200 are bursts of one of them alone "
    "(ai-dynamo/aiconfigurator at 095f58a5)";
constexpr const char* kAsGb200 = "neighbour: the GB200's; no rows of a GB300";
constexpr const char* kH100Casts =
    "median of 13 rows of 2^25 elements and more on an H100, 1266 and 3028 GB/s of the datasheet's "
    "3350 "
    "(ai-dynamo/aiconfigurator at 095f58a5, systems/data/h100_sxm/quantize)";
constexpr const char* kB200Casts =
    "median of 13 rows of 2^25 elements and more on a B200, 2773 and 4467 GB/s of the datasheet's "
    "8000 "
    "(ai-dynamo/aiconfigurator at 095f58a5, systems/data/b200_sxm/quantize)";
constexpr const char* kCastAsH100 = "neighbour: the H100's; no rows of an A100";
constexpr const char* kA100Sms = "NVIDIA A100 whitepaper (2020): 108 multiprocessors";
constexpr const char* kH100Sms = "NVIDIA H100 whitepaper (2022), SXM5: 132 multiprocessors";
constexpr const char* kB200Sms =
    "assumed: 148 multiprocessors, as cudaGetDeviceProperties reports of a B200";
constexpr const char* kB300Sms =
    "neighbour: the B200's 148; of a B300 158 are listed (openxla/xla specs/b300.txtpb at "
    "4336d12), "
    "where a GB300 has 152";
constexpr const char* kGb200Sms =
    "152 multiprocessors, as CUDA reports of a GB200 (openxla/xla specs/gb200.txtpb at 300ec95)";
constexpr const char* kGb300Sms =
    "152 multiprocessors, as CUDA reports of a GB300 (openxla/xla specs/gb300.txtpb at 4336d12)";
constexpr const char* kH20Sms =
    "78 multiprocessors, as Geekbench 6 reported of an H20 (December 2023); no data sheet has them";
constexpr const char* kAsB200 = "neighbour: the B200's; no rows of this GPU";
constexpr const char* kH20AsH100 =
    "neighbour: the H100's, of the same chip with fewer multiprocessors; no rows of an H20";

constexpr std::array<KernelConstants, 9> kConstants = {{
    {.name = "a100-pcie",
     .multiprocessors = {108, kA100Sms},
     .matmul_rate = {0.8461, kPcieProducts},
     .tile_halving = {6.593, kPcieProducts},
     .tile_overhead_s = {3.558e-6, kPcieProducts},
     .epilogue_exposed = {0.3708, kPcieProducts},
     .unaligned_share = {0.6888, kUnaligned},
     .attention_forward_rate = {0.9024, kPcieAttention},
     .attention_backward_rate = {0.7154, kPcieAttention},
     .attention_head_halving = {27.97, kTrend},
     .attention_keys_halving = {309.0, kTrend},
     .attention_forward_tail = {0.8791, kPcieAttention},
     .attention_backward_tail = {0.4689, kPcieAttention},
     .fp8_share = {0, kNoFewerBits},
     .fp8_block_share = {0, kNoFewerBits},
     .fp4_share = {0, kNoFewerBits},
     .permutation_share = {0.1555, kPcieMemory},
     .cross_entropy_share = {0.6681, kPcieMemory},
     .amax_share = {0.3780, kCastAsH100},
     .quantize_share = {0.9039, kCastAsH100},
     .beside_communication = {0.189, kOverlap}},
    {.name = "a100-sxm",
     .multiprocessors = {108, kA100Sms},
     .matmul_rate = {0.9146, kSxmBest},
     .tile_halving = {6.593, kAsPcie},
     .tile_overhead_s = {3.558e-6, kAsPcie},
     .epilogue_exposed = {0.3708, kAsPcie},
     .unaligned_share = {0.6888, kUnaligned},
     .attention_forward_rate = {0.9755, kSxmAttention},
     .attention_backward_rate = {0.7733, kSxmAttention},
     .attention_head_halving = {27.97, kTrend},
     .attention_keys_halving = {309.0, kTrend},
     .attention_forward_tail = {0.8791, kAsPcie},
     .attention_backward_tail = {0.4689, kAsPcie},
     .fp8_share = {0, kNoFewerBits},
     .fp8_block_share = {0, kNoFewerBits},
     .fp4_share = {0, kNoFewerBits},
     .permutation_share = {0.1555, kMemoryAsPcie},
     .cross_entropy_share = {0.6681, kMemoryAsPcie},
     .amax_share = {0.3780, kCastAsH100},
     .quantize_share = {0.9039, kCastAsH100},
     .beside_communication = {0.189, kOverlap}},
    {.name = "b200-sxm",
     .multiprocessors = {148, kB200Sms},
     .matmul_rate = {1.0, kB200Products},
     .tile_halving = {24.53, kB200Products},
     .tile_overhead_s = {3.864e-6, kB200Products},
     .epilogue_exposed = {0.0, kB200Products},
     .unaligned_share = {0.6888, kUnaligned},
     .attention_forward_rate = {0.7391, kB200Attention},
     .attention_backward_rate = {0.5664, kB200Attention},
     .attention_head_halving = {27.97, kTrend},
     .attention_keys_halving = {309.0, kTrend},
     .attention_forward_tail = {1.833, kB200Attention},
     .attention_backward_tail = {0.2432, kB200Attention},
     .fp8_share = {0.9660, kB200Fewer},
     .fp8_block_share = {0.8917, kB200Fewer},
     .fp4_share = {0.6670, kB200Fewer},
     .permutation_share = {0.506, kB200Memory},
     .cross_entropy_share = {0.325, kB200Memory},
     .amax_share = {0.3467, kB200Casts},
     .quantize_share = {0.5584, kB200Casts},
     .beside_communication = {0.189, kOverlap}},
    {.name = "b300-sxm",
     .multiprocessors = {148, kB300Sms},
     .matmul_rate = {1.0, kAsB200},
     .tile_halving = {24.53, kAsB200},
     .tile_overhead_s = {3.864e-6, kAsB200},
     .epilogue_exposed = {0.0, kAsB200},
     .unaligned_share = {0.6888, kUnaligned},
     .attention_forward_rate = {0.7391, kAsB200},
     .attention_backward_rate = {0.5664, kAsB200},
     .attention_head_halving = {27.97, kTrend},
     .attention_keys_halving = {309.0, kTrend},
     .attention_forward_tail = {1.833, kAsB200},
     .attention_backward_tail = {0.2432, kAsB200},
     .fp8_share = {0.9660, kAsB200},
     .fp8_block_share = {0.8917, kAsB200},
     .fp4_share = {0.6670, kAsB200},
     .permutation_share = {0.506, kAsB200},
     .cross_entropy_share = {0.325, kAsB200},
     .amax_share = {0.3467, kAsB200},
     .quantize_share = {0.5584, kAsB200},
     .beside_communication = {0.189, kOverlap}},
    {.name = "gb200",
     .multiprocessors = {152, kGb200Sms},
     .matmul_rate = {1.0, kGb200Products},
     .tile_halving = {24.53, kGb200Products},
     .tile_overhead_s = {3.864e-6, kGb200Products},
     .epilogue_exposed = {0.0, kGb200Products},
     .unaligned_share = {0.6888, kUnaligned},
     .attention_forward_rate = {0.7391, kAsB200},
     .attention_backward_rate = {0.5664, kAsB200},
     .attention_head_halving = {27.97, kTrend},
     .attention_keys_halving = {309.0, kTrend},
     .attention_forward_tail = {1.833, kAsB200},
     .attention_backward_tail = {0.2432, kAsB200},
     .fp8_share = {0.9121, kGb200Fewer},
     .fp8_block_share = {0.8938, kGb200Fewer},
     .fp4_share = {0.6991, kGb200Fewer},
     .permutation_share = {0.506, kAsB200},
     .cross_entropy_share = {0.325, kAsB200},
     .amax_share = {0.3516, kGb200Casts},
     .quantize_share = {0.5976, kGb200Casts},
     .beside_communication = {0.189, kOverlap}},
    {.name = "gb300",
     .multiprocessors = {152, kGb300Sms},
     .matmul_rate = {1.0, kAsB200},
     .tile_halving = {24.53, kAsB200},
     .tile_overhead_s = {3.864e-6, kAsB200},
     .epilogue_exposed = {0.0, kAsB200},
     .unaligned_share = {0.6888, kUnaligned},
     .attention_forward_rate = {0.7391, kAsB200},
     .attention_backward_rate = {0.5664, kAsB200},
     .attention_head_halving = {27.97, kTrend},
     .attention_keys_halving = {309.0, kTrend},
     .attention_forward_tail = {1.833, kAsB200},
     .attention_backward_tail = {0.2432, kAsB200},
     .fp8_share = {0.9121, kAsGb200},
     .fp8_block_share = {0.8938, kAsGb200},
     .fp4_share = {0.6991, kAsGb200},
     .permutation_share = {0.506, kAsB200},
     .cross_entropy_share = {0.325, kAsB200},
     .amax_share = {0.3516, kAsGb200},
     .quantize_share = {0.5976, kAsGb200},
     .beside_communication = {0.189, kOverlap}},
    {.name = "h100-sxm",
     .multiprocessors = {132, kH100Sms},
     .matmul_rate = {0.8564, kH100Best},
     .tile_halving = {6.593, kH100AsPcie},
     .tile_overhead_s = {3.558e-6, kH100AsPcie},
     .epilogue_exposed = {0.3708, kH100AsPcie},
     .unaligned_share = {0.6888, kUnaligned},
     .attention_forward_rate = {0.5209, kH100Attention},
     .attention_backward_rate = {0.4129, kH100Attention},
     .attention_head_halving = {27.97, kTrend},
     .attention_keys_halving = {309.0, kTrend},
     .attention_forward_tail = {0.8791, kH100AsPcie},
     .attention_backward_tail = {0.4689, kH100AsPcie},
     .fp8_share = {0.9131, kH100Fewer},
     .fp8_block_share = {0.7492, kH100Fewer},
     .fp4_share = {0, kNoFewerBits},
     .permutation_share = {0.506, kHopperRows},
     .cross_entropy_share = {0.6681, kMemoryAsPcie},
     .amax_share = {0.3780, kH100Casts},
     .quantize_share = {0.9039, kH100Casts},
     .beside_communication = {0.189, kOverlap}},
    {.name = "h20-sxm",
     .multiprocessors = {78, kH20Sms},
     .matmul_rate = {0.8564, kH20AsH100},
     .tile_halving = {6.593, kH20AsH100},
     .tile_overhead_s = {3.558e-6, kH20AsH100},
     .epilogue_exposed = {0.3708, kH20AsH100},
     .unaligned_share = {0.6888, kUnaligned},
     .attention_forward_rate = {0.5209, kH20AsH100},
     .attention_backward_rate = {0.4129, kH20AsH100},
     .attention_head_halving = {27.97, kTrend},
     .attention_keys_halving = {309.0, kTrend},
     .attention_forward_tail = {0.8791, kH20AsH100},
     .attention_backward_tail = {0.4689, kH20AsH100},
     .fp8_share = {0.9131, kH20AsH100},
     .fp8_block_share = {0.7492, kH20AsH100},
     .fp4_share = {0, kNoFewerBits},
     .permutation_share = {0.506, kHopperRows},
     .cross_entropy_share = {0.6681, kH20AsH100},
     .amax_share = {0.3780, kH20AsH100},
     .quantize_share = {0.9039, kH20AsH100},
     .beside_communication = {0.189, kOverlap}},
    {.name = "h200-sxm",
     .multiprocessors = {132, "neighbour: the H100's 132, of the same chip"},
     .matmul_rate = {0.8564, kH200Products},
     .tile_halving = {6.593, kAsH100},
     .tile_overhead_s = {3.558e-6, kAsH100},
     .epilogue_exposed = {0.3708, kAsH100},
     .unaligned_share = {0.6888, kUnaligned},
     .attention_forward_rate = {0.5209, kAsH100},
     .attention_backward_rate = {0.4129, kAsH100},
     .attention_head_halving = {27.97, kTrend},
     .attention_keys_halving = {309.0, kTrend},
     .attention_forward_tail = {0.8791, kAsH100},
     .attention_backward_tail = {0.4689, kAsH100},
     .fp8_share = {0.9131, kAsH100},
     .fp8_block_share = {0.7492, kAsH100},
     .fp4_share = {0, kNoFewerBits},
     .permutation_share = {0.506, kHopperRows},
     .cross_entropy_share = {0.6681, kMemoryAsPcie},
     .amax_share = {0.3780, kAsH100},
     .quantize_share = {0.9039, kAsH100},
     .beside_communication = {0.189, kOverlap}},
}};

constexpr const char* kCapabilities = "NVIDIA, \"CUDA GPU Compute Capability\"";

constexpr std::size_t kNumConstants = kConstants.size();

// In the order of kConstants.
constexpr std::array<SourcedNumber, kNumConstants> kComputeCapabilities = {
    {{8.0, kCapabilities},    // a100-pcie
     {8.0, kCapabilities},    // a100-sxm
     {10.0, kCapabilities},   // b200-sxm
     {10.3, kCapabilities},   // b300-sxm
     {10.0, kCapabilities},   // gb200
     {10.3, kCapabilities},   // gb300
     {9.0, kCapabilities},    // h100-sxm
     {9.0, kCapabilities},    // h20-sxm
     {9.0, kCapabilities}}};  // h200-sxm

}  // namespace

std::array<NamedConstant, kKernelConstants> constants_of(const KernelConstants& of) {
  return {{{"multiprocessors", of.multiprocessors},
           {"matmul_rate", of.matmul_rate},
           {"tile_halving", of.tile_halving},
           {"tile_overhead_s", of.tile_overhead_s},
           {"epilogue_exposed", of.epilogue_exposed},
           {"unaligned_share", of.unaligned_share},
           {"attention_forward_rate", of.attention_forward_rate},
           {"attention_backward_rate", of.attention_backward_rate},
           {"attention_head_halving", of.attention_head_halving},
           {"attention_keys_halving", of.attention_keys_halving},
           {"attention_forward_tail", of.attention_forward_tail},
           {"attention_backward_tail", of.attention_backward_tail},
           {"fp8_share", of.fp8_share},
           {"fp8_block_share", of.fp8_block_share},
           {"fp4_share", of.fp4_share},
           {"permutation_share", of.permutation_share},
           {"cross_entropy_share", of.cross_entropy_share},
           {"amax_share", of.amax_share},
           {"quantize_share", of.quantize_share},
           {"beside_communication", of.beside_communication}}};
}

std::span<const KernelConstants> all_kernel_constants() { return kConstants; }

const KernelConstants* find_kernel_constants(std::string_view name) {
  for (const KernelConstants& constants : kConstants) {
    if (constants.name == name) return &constants;
  }
  return nullptr;
}

SourcedNumber compute_capability_of(std::string_view name) {
  std::size_t row = 0;
  while (kConstants.at(row).name != name) ++row;
  return kComputeCapabilities.at(row);
}

}  // namespace shardsim

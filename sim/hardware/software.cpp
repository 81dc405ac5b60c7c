#include "sim/hardware/software.hpp"

#include <algorithm>
#include <initializer_list>

#include "sim/hardware/recorded_uses.hpp"

namespace shardsim {

namespace {

using F = KernelFamily;

struct FamilyUse {
  KernelFamily family;
  KernelUse use;
};

constexpr KernelUses with(KernelUses uses, std::initializer_list<FamilyUse> changes) {
  for (const FamilyUse& change : changes) {
    uses[static_cast<std::size_t>(change.family)] = change.use;
  }
  return uses;
}

// The row's recorded families take the place of `uses`.
constexpr KernelUses recorded(KernelUses uses, std::string_view software) {
  for (const RecordedUse& each : kRecordedUses) {
    if (each.software == software) uses[static_cast<std::size_t>(each.family)] = each.use;
  }
  return uses;
}

// The same of what is kept for backward.
constexpr FrameworkMemory recorded(FrameworkMemory memory, std::string_view software) {
  for (const RecordedSoftware& each : kRecordedSoftware) {
    if (each.software != software) continue;
    memory.norm_kept_bytes = each.norm_kept_bytes;
    memory.activation_kept_bytes = each.activation_kept_bytes;
  }
  return memory;
}

// Traffic is counted per element of 16 bits: bytes that kernels read and write, over those that our
// operation does. Ours are 4 for a norm and 6 for its backward, 6 for SwiGLU and 10 for its
// backward, 2 for the forward of cross entropy and 4 for its backward.

// flash-linear-attention, fla/ops/gated_delta_rule/chunk.py: sums of gates, k k^T, its inverse, W
// and U, states, output, and norms of q and k; in backward W and U, states, three kernels of
// gradients, those of W and U, two sums, sums of gates, and two norms.
constexpr KernelUse kDeltaRule{8.0, 1.0};
constexpr KernelUse kDeltaRuleBackward{11.0, 1.0};

// Optimizers update very many tensors in one kernel.
constexpr KernelUses kPlain =
    with(one_kernel_each(), {{F::optimizer_step, {0.0, 1.0}},
                             {F::delta_rule, kDeltaRule},
                             {F::delta_rule_backward, kDeltaRuleBackward}});

// A second pass over dy and x for the gradients of the weights; two sums to those.
constexpr KernelUse kTwoPassNormBackward{4.0, 10.0 / 6.0};

// Scores, softmax, dropout, values, and a copy of the result to (s, b, h).
constexpr KernelUse kStoredScores{5.0, 1.5};
// Four products, softmax, dropout, the copy's gradient, and q, k and v joined again, by three.
constexpr KernelUse kStoredScoresBackward{10.0, 2.0};

constexpr KernelUses kMegatron2021 =
    with(recorded(kPlain, "megatron-lm-2021"),
         {
             {F::attention_forward, kStoredScores},
             {F::attention_backward, kStoredScoresBackward},
             {F::weight_gradient, {2.0, 1.0}},
             {F::bias, {0.0, 0.0}},  // With the product, with GELU, or with dropout.
             {F::bias_gradient, {2.0, 1.0}},
             {F::norm_backward, kTwoPassNormBackward},
             {F::dropout, {0.0, 0.25}},           // With the sum that follows; the mask is written,
             {F::dropout_backward, {1.0, 1.25}},  // and read.
         });

constexpr KernelUses kMegatronCore =
    with(recorded(kPlain, "megatron-core-2023"), {
                                                     {F::bias, {0.0, 0.0}},
                                                     {F::dropout, {0.0, 0.25}},
                                                     {F::dropout_backward, {1.0, 1.25}},
                                                 });

// Transformer Engine's cross entropy: one kernel reads the logits for their softmax (2 bytes), one
// reads them again and writes their gradient in place (4); backward multiplies that by the loss's
// (4). Its norm finds the largest element of what it writes.
constexpr KernelUses kMegatronCore2025 =
    with(kMegatronCore, {
                            {F::cross_entropy, {2.0, 6.0 / 2.0}},
                            {F::cross_entropy_backward, {1.0, 4.0 / 4.0}},
                            {F::amax_of_norm, {0.0, 0.0}},
                        });

constexpr KernelUses kComposer =
    with(recorded(kPlain, "composer-2023"), {
                                                {F::weight_gradient, {2.0, 1.0}},
                                                {F::bias, {0.0, 0.0}},  // MPT has no biases.
                                                {F::bias_gradient, {0.0, 0.0}},
                                            });

constexpr KernelUses kInternEvo =
    with(recorded(kPlain, "internevo-2023"), {{F::weight_gradient, {2.0, 1.0}}});

// FSDP2 reduces a unit's gradients as they are, and adds up shards: a weight's gradient is one
// product (docs/guide/torch-strategies.md).
constexpr KernelUses kTorchtitan = recorded(kPlain, "torchtitan-2024");

constexpr KernelUses kTransformers =
    with(recorded(kPlain, "deepspeed-2024"), {{F::weight_gradient, {2.0, 1.0}}});

// Inductor makes one kernel of each norm, activation and loss; it makes none for complex numbers.
// Its loss reads the logits twice (4 bytes), and in backward reads them and writes their gradient.
constexpr KernelUses kTorchtitan2025 = with(
    kPlain, {
                {F::cross_entropy, {2.0, 4.0 / 2.0}},
                {F::rotary, kTorchtitan[static_cast<std::size_t>(F::rotary)]},
                {F::rotary_backward, kTorchtitan[static_cast<std::size_t>(F::rotary_backward)]},
            });

// The fp32 softmax takes the place of 16-bit logits. Beside it stand the logits in 16 bits and, in
// 2021, those in fp32 less their maximum; in backward the gradient in 16 bits.
constexpr FrameworkMemory kMegatron2021Memory{.score_bytes = 2.0,
                                              .mask_bytes = 1.0,
                                              .apart_gradient_bytes = 2.0,
                                              .loss_kept_bytes = 2.0,
                                              .loss_forward_bytes = 6.0,
                                              .loss_backward_bytes = 2.0};
// A product adds to the main gradient; a tensor of the weight's size tells autograd of it.
constexpr FrameworkMemory kMegatronCoreMemory{.mask_bytes = 1.0,
                                              .apart_gradient_bytes = 2.0,
                                              .loss_kept_bytes = 2.0,
                                              .loss_forward_bytes = 2.0,
                                              .loss_backward_bytes = 2.0};
// The loss's gradient is written over the logits.
// Weights of experts multiply activations (core 0.12, moe/experts.py, permuted_probs).
constexpr FrameworkMemory kMegatronCore2025Memory{
    .mask_bytes = 1.0, .apart_gradient_bytes = 2.0, .keeps_expert_outputs = false};
constexpr FrameworkMemory with_scores(FrameworkMemory memory) {
  memory.score_bytes = 2.0;
  return memory;
}
// log_softmax keeps its result in fp32 beside the logits; its operand is in fp32, too, and in
// backward there are two gradients.
constexpr FrameworkMemory kTorchMemory{.mask_bytes = 1.0,
                                       .apart_gradient_bytes = 2.0,
                                       .loss_kept_bytes = 4.0,
                                       .loss_forward_bytes = 4.0,
                                       .loss_backward_bytes = 8.0};

// transformers makes logits fp32 and copies all but the last position's for the loss; its outputs
// hold those in fp32 until the step ends. In backward the gradient is copied among zeros.
constexpr FrameworkMemory kShiftedLossMemory{.mask_bytes = 1.0,
                                             .apart_gradient_bytes = 2.0,
                                             .loss_kept_bytes = 8.0,
                                             .loss_forward_bytes = 4.0,
                                             .loss_backward_bytes = 8.0};

// The gradient is not written over the logits.
constexpr FrameworkMemory kFusedLossMemory{
    .mask_bytes = 1.0, .apart_gradient_bytes = 2.0, .loss_backward_bytes = 2.0};

constexpr const char* kFlashAttention1 =
    "FlashAttention against FlashAttention-2, forward and backward: mean of 18 pairs of rows in "
    "attention_kernel_throughput.csv, transcribed and not confirmed";
constexpr const char* kHostFit =
    "fit_software.py on every second of the 720 rows of vtrain_single_node_iteration_time.csv "
    "(VIA-Research/vTrain at f8dda84)";
constexpr SourcedNumber kHostAssumed = {
    10.0, "assumed: a few microseconds in PyTorch and as many in the driver; nothing was fitted"};

constexpr Software kMegatronLm = {
    .name = "megatron-lm-2021",
    .source =
        "NVIDIA/Megatron-LM v2, megatron/model/transformer.py, mpu/cross_entropy.py and "
        "p2p_communication.py: softmax with scale and mask, GELU with bias, dropout with bias and "
        "sum, layer norm of Apex; scores are stored",
    .uses = kMegatron2021,
    .score_passes = {.forward = 2.0, .backward = 3.0},
    .dropout_passes = {.forward = 2.5, .backward = 2.5},
    .memory = kMegatron2021Memory,
    .dropped_score_bytes = 3.0,
    .cuda_context = kEagerCudaContextBytes,
    .product_library = ProductLibrary::outside_allocator,
    .host_waits_for_transfers = true,
    .host_us_per_kernel = {46.0, kHostFit},
    .host_us_per_call = {40.0, kHostFit}};

// Another pipeline under the same kernels.
constexpr Software megatron_deepspeed() {
  Software software = kMegatronLm;
  software.name = "megatron-deepspeed-2022";
  software.source =
      "bigscience-workshop/Megatron-DeepSpeed at 06dc2d7, megatron/model/transformer.py: kernels "
      "of Megatron-LM v2, ALiBi in the product that makes the scores; microsoft/DeepSpeed at "
      "077e674, deepspeed/runtime/pipe/p2p.py: transfers that the stream waits for, not the host";
  software.host_waits_for_transfers = false;
  return software;
}

constexpr std::array<Software, 10> kSoftware = {{
    {.name = "composer-2023",
     .source = "mosaicml/llm-foundry at 8c8dd48 with Composer and PyTorch 2.0: FlashAttention in "
               "Triton, layer norm in 16 bits, elementwise kernels one by one, no dropout and no "
               "biases, FlashAttention's kernel of cross entropy (loss_fn fused_crossentropy)",
     .uses = kComposer,
     .memory = kFusedLossMemory,
     .attention_share = {0.546, kFlashAttention1},
     .host_us_per_kernel = kHostAssumed,
     .host_us_per_call = kHostAssumed},
    {.name = "deepspeed-2024",
     .source = "microsoft/DeepSpeed around huggingface/transformers at 00227283, "
               "models/llama/modeling_llama.py, not compiled: FlashAttention-2, RMS norm, rotary "
               "embedding by halves and SwiGLU kernel by kernel, norm and loss in fp32",
     .uses = kTransformers,
     .memory = recorded(kShiftedLossMemory, "deepspeed-2024"),
     .host_us_per_kernel = kHostAssumed,
     .host_us_per_call = kHostAssumed},
    {.name = "internevo-2023",
     .source = "InternLM/InternEvo of 2023: FlashAttention 1 with its rotary and cross-entropy "
               "kernels, fused RMS norm of Apex, SwiGLU of PyTorch",
     .uses = kInternEvo,
     .memory = recorded(kFusedLossMemory, "internevo-2023"),
     .attention_share = {0.546, kFlashAttention1},
     .host_us_per_kernel = kHostAssumed,
     .host_us_per_call = kHostAssumed},
    {.name = "megatron-core-2023",
     .source = "NVIDIA/Megatron-LM, core of 2023 with TransformerEngine: fused attention, products "
               "add to the gradients; megatron/core/tensor_parallel/cross_entropy.py",
     .uses = kMegatronCore,
     .memory = kMegatronCoreMemory,
     .product_library = ProductLibrary::transformer_engine,
     .attention = AttentionLibrary::cudnn,
     .host_us_per_kernel = kHostAssumed,
     .host_us_per_call = kHostAssumed},
    {.name = "megatron-core-2025",
     .source =
         "NVIDIA-NeMo/Megatron-Bridge 0.1 to 0.6 with NVIDIA/TransformerEngine 2.7 to 2.17: fused "
         "attention of cuDNN, products that add to the gradients, cross_entropy_fusion_impl te "
         "(common/triton/cross_entropy.py), FUSED_NORM_AMAX_FP8 "
         "(pytorch/csrc/extensions/normalization.cpp); NVIDIA/Megatron-LM core 0.12, "
         "moe/experts.py: permuted_probs",
     .uses = kMegatronCore2025,
     .memory = kMegatronCore2025Memory,
     .product_library = ProductLibrary::transformer_engine,
     .attention = AttentionLibrary::cudnn,
     .host_us_per_kernel = kHostAssumed,
     .host_us_per_call = kHostAssumed},
    {.name = "megatron-core-unfused-2023",
     .source = "NVIDIA/Megatron-LM, core of 2023 with --attention-backend unfused or "
               "--transformer-impl local: megatron/core/transformer/dot_product_attention.py",
     .uses = with(kMegatronCore, {{F::attention_forward, kStoredScores},
                                  {F::attention_backward, kStoredScoresBackward}}),
     .score_passes = {.forward = 2.0, .backward = 3.0},
     .dropout_passes = {.forward = 2.5, .backward = 2.5},
     .memory = with_scores(kMegatronCoreMemory),
     .dropped_score_bytes = 3.0,
     .product_library = ProductLibrary::transformer_engine,
     .host_us_per_kernel = kHostAssumed,
     .host_us_per_call = kHostAssumed},
    megatron_deepspeed(),
    kMegatronLm,
    {.name = "torchtitan-2024",
     .source =
         "pytorch/torchtitan at 3faaa1a, not compiled: FlashAttention-2 of PyTorch, RMS norm, "
         "rotary embedding and SwiGLU kernel by kernel, norm and rotary embedding in fp32",
     .uses = kTorchtitan,
     .memory = recorded(kTorchMemory, "torchtitan-2024"),
     .recompute_stops_early = true,
     .copies_units = true,
     .host_us_per_kernel = kHostAssumed,
     .host_us_per_call = kHostAssumed},
    {.name = "torchtitan-2025",
     .source = "pytorch/torchtitan v0.2.0 with compile.enable: cuDNN's attention first "
               "(models/attention.py), rotary embedding kernel by kernel; assumed, not recorded: "
               "one kernel of Inductor for each norm, activation and loss",
     .uses = kTorchtitan2025,
     .memory = kFusedLossMemory,
     .attention = AttentionLibrary::cudnn,
     .recompute_stops_early = true,
     .copies_units = true,
     .host_us_per_kernel = kHostAssumed,
     .host_us_per_call = kHostAssumed},
}};

constexpr std::array<const char*, kKernelFamilies> kFamilyNames = {
    "other",
    "matrix_product",
    "weight_gradient",
    "attention_forward",
    "attention_backward",
    "permutation",
    "cross_entropy",
    "cross_entropy_backward",
    "bias",
    "bias_gradient",
    "norm",
    "norm_backward",
    "activation",
    "activation_backward",
    "rotary",
    "rotary_backward",
    "dropout",
    "dropout_backward",
    "residual",
    "optimizer_step",
    "amax",
    "amax_of_norm",
    "quantize",
    "delta_rule",
    "delta_rule_backward",
};

}  // namespace

const char* source_of(const Software& software, KernelFamily family) {
  const auto is_it = [&](const RecordedUse& each) {
    return each.software == software.name && each.family == family;
  };
  if (std::ranges::none_of(kRecordedUses, is_it)) return software.source;
  return std::ranges::find(kRecordedSoftware, std::string_view(software.name),
                           &RecordedSoftware::software)
      ->source;
}

std::string_view name_of(KernelFamily family) {
  return kFamilyNames.at(static_cast<std::size_t>(family));
}

const SourcedBytes& cuda_context_of(const Software* software) {
  return software == nullptr ? kCudaContextBytes : software->cuda_context;
}

std::span<const Software> all_software() { return kSoftware; }

const Software* find_software(std::string_view name) {
  const auto* found = std::ranges::find(kSoftware, name, &Software::name);
  return found == kSoftware.end() ? nullptr : found;
}

}  // namespace shardsim

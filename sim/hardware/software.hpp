#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "sim/hardware/compute_op.hpp"
#include "sim/hardware/framework_memory.hpp"
#include "sim/hardware/kernels/kernel_constants.hpp"
#include "sim/hardware/sourced_number.hpp"

// The operations of a model in a training framework of some year: their kernels, the kernels'
// bytes, and the host time of each kernel. Without one, every operation is one ideal kernel and the
// host costs nothing (docs/decisions/0036-software.md).
namespace shardsim {

/// The kernels of an operation, counted in the framework's code, not fitted. The members have no
/// defaults: where a constexpr function changes a copy of an array of them, GCC 12 zeroes elements
/// of the original (docs/decisions/0049-tables-of-two-compilers.md).
struct KernelUse {
  double kernels;  ///< 0: it is part of a neighbour, or one of very many in one kernel.
  double traffic;  ///< Their bytes, relative to those of the operation done at once.

  friend bool operator==(const KernelUse&, const KernelUse&) = default;
};

/// The use of an operation that is one ideal kernel.
inline constexpr KernelUse kOneKernel{1.0, 1.0};

/// The kernel use of each family of operations.
using KernelUses = std::array<KernelUse, kKernelFamilies>;

/// One kernel for each family; writes every element.
constexpr KernelUses one_kernel_each() {
  KernelUses uses{};
  uses.fill(kOneKernel);
  return uses;
}

/// A family of a software row that was recorded from the framework's own module code, by
/// tests/campaigns/software_rows.
struct RecordedUse {
  std::string_view software;
  KernelFamily family;
  KernelUse use;
};
struct RecordedSoftware {
  std::string_view software;
  const char* source;  ///< Repository, commit and files of the code.
  double norm_kept_bytes;
  double activation_kept_bytes;
};

/// How often kernels read or write stored scores of attention: between the two products in forward,
/// among the four in backward. 0: a fused kernel never stores them.
struct ScorePasses {
  double forward = 0.0;
  double backward = 0.0;
};

/// The CUDA context with the kernels that training loads: all of them at once, until CUDA 11.7
/// loaded each when it was first used.
inline constexpr SourcedBytes kCudaContextBytes{
    400'000'000,
    "pytorch/pytorch issue 109888, 2023: around 400 MB since CUDA 11.7, whose modules load lazily; "
    "issue 107667 tells of 300 MB, and of more than 1 GB before"};
inline constexpr SourcedBytes kEagerCudaContextBytes{
    std::int64_t{1573} << 20U,
    "bigscience-workshop/bigscience at 9e64ede, train/tr11-176B-ml/chronicles-prequel.md, 2022: "
    "1573 MiB on an A100 40 GB"};

/// The giver of workspaces to the library of matrix products: see sim/hardware/workspaces.hpp.
enum class ProductLibrary : std::uint8_t {
  pytorch,             ///< PyTorch, out of its allocator.
  transformer_engine,  ///< The same, and Transformer Engine for its own products.
  outside_allocator,   ///< cuBLAS itself, as before PyTorch 1.13: part of the CUDA context.
};

struct Software {
  const char* name;    ///< As scenarios write it.
  const char* source;  ///< Source of all counts: `uses` and the passes.

  KernelUses uses = one_kernel_each();
  ScorePasses score_passes;
  /// These come on top where attention has dropout.
  ScorePasses dropout_passes;
  /// Without dropout of attention, which adds dropped_score_bytes to each score.
  FrameworkMemory memory;
  double dropped_score_bytes = 0.0;
  SourcedBytes cuda_context = kCudaContextBytes;
  ProductLibrary product_library = ProductLibrary::pytorch;

  /// The library of attention that stores no scores, where a GPU has it, and its rate over that of
  /// the release that was measured.
  AttentionLibrary attention = AttentionLibrary::flash2;
  SourcedNumber attention_share{1.0, "the kernel that was measured"};
  /// Whether checkpoints end where backward has all it reads (ModelOptions::recompute_stops_early).
  bool recompute_stops_early = false;
  /// Whether fully sharded units are copied to and from flat tensors that travel, as in FSDP2.
  bool copies_units = false;
  /// Whether the host, on a wait for a transfer between two ranks, waits until the device has done
  /// all before.
  bool host_waits_for_transfers = false;

  /// Microseconds of the host for each kernel, and for each communication.
  SourcedNumber host_us_per_kernel;
  SourcedNumber host_us_per_call;

  [[nodiscard]] const KernelUse& use(KernelFamily family) const {
    return uses[static_cast<std::size_t>(family)];
  }
  [[nodiscard]] bool stores_scores() const { return score_passes.forward > 0.0; }
};

/// The library whose attention `software` runs on a GPU. Ideal kernels, for null, are cuDNN's.
[[nodiscard]] AttentionLibrary attention_library_of(const Software* software,
                                                    const KernelConstants& kernels);

/// The source of a family's use: the recorded code, or that of the row.
[[nodiscard]] const char* source_of(const Software& software, KernelFamily family);

/// "cross_entropy_backward".
[[nodiscard]] std::string_view name_of(KernelFamily family);

/// The context of a process that runs `software`, which may be null.
[[nodiscard]] const SourcedBytes& cuda_context_of(const Software* software);

/// All entries, in the order of their names.
[[nodiscard]] std::span<const Software> all_software();
/// Null if there is none of that name.
[[nodiscard]] const Software* find_software(std::string_view name);

}  // namespace shardsim

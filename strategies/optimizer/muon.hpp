#pragma once

#include <cstdint>

#include "backends/runtime.hpp"

// Muon, "momentum orthogonalized by Newton-Schulz": the momentum of a weight matrix is replaced by
// the nearest matrix with equal singular values. It takes the matrices of hidden layers
// (ParameterSpec::matrix_rows); an elementwise Optimizer takes all other weights, and its learning
// rate and weight decay hold for both. Sources: Jordan, "Muon" (KellerJordan/Muon, muon.py); Liu et
// al., "Muon is scalable" (arXiv 2502.16982); NVIDIA-NeMo/Emerging-Optimizers@fd77292.
namespace shardsim {

/// Coefficients (a, b, c) of the steps. simple: one triple for all; quintic: five, in turn.
enum class MuonCoefficients : std::uint8_t { quintic, simple };
/// Factor of an update of W [out, in]. spectral: sqrt(max(out, in)); shape_scaling:
/// sqrt(max(1, out / in)); unit_rms_norm: sqrt(out / in).
enum class MuonScale : std::uint8_t { spectral, shape_scaling, unit_rms_norm };
/// A matrix that tensor-parallel ranks have slices of: each gathers and iterates all of it; each
/// iterates its slice, and they sum the products over the cut; or each slice is a matrix of its own
/// (another algorithm).
enum class MuonTensorParallel : std::uint8_t { duplicated, distributed, blockwise };
/// ZeRO-1: whole matrices have one owner each; or ranks own slices, and gather what they iterate.
enum class MuonDataParallel : std::uint8_t { layer_wise, slices };

struct MuonOptions {
  double momentum = 0.95;
  bool nesterov = true;
  std::int64_t num_steps = 5;
  MuonCoefficients coefficients = MuonCoefficients::quintic;
  MuonScale scale = MuonScale::spectral;
  double extra_scale_factor = 1.0;  ///< 0.2 matches the size of AdamW's updates (Moonlight).
  MuonTensorParallel tensor_parallel = MuonTensorParallel::duplicated;
  MuonDataParallel data_parallel = MuonDataParallel::layer_wise;
};

/// Where nothing is said, as in Emerging-Optimizers.
inline constexpr double kMuonWeightDecay = 0.01;
/// Its state: one tensor of a parameter's size. Orthogonalizing does not depend on its factor.
inline constexpr const char* kMuonState = "momentum_buffer";

/// Throws UsageError E0606 unless 0 <= momentum < 1, num_steps is 1 or more, and
/// extra_scale_factor is finite and above 0.
void validate(const MuonOptions& options);

/// A rank's part of a matrix [out, in]: all of it, or one of `parts` equal slices.
struct MatrixPart {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  int cut_axis = -1;  ///< 0: the part is rows of it, 1: columns, -1: all.
  int parts = 1;

  [[nodiscard]] std::int64_t numel() const { return rows * columns; }
  [[nodiscard]] std::int64_t out() const { return cut_axis == 0 ? rows * parts : rows; }
  [[nodiscard]] std::int64_t in() const { return cut_axis == 1 ? columns * parts : columns; }
};

/// Factor of the update of the matrix that `part` is of.
[[nodiscard]] double scale_of(const MuonOptions& options, const MatrixPart& part);

/// Type in which matrices are iterated: bf16 where weights have 2 bytes (Megatron-Core's "medium"),
/// else that of the master weights.
[[nodiscard]] DType iteration_dtype(DType weight, DType master);

/// momentum <- mu momentum + gradient, and direction = gradient + mu momentum (Nesterov), or the
/// momentum; the gradient is first multiplied by `gradient_scale`. All flat, of equal length; one
/// memory-bound operation.
void muon_direction(Runtime& runtime, const MuonOptions& options, const Tensor& direction,
                    const Tensor& momentum, const Tensor& gradient, double gradient_scale);

/// parameter <- parameter (1 - rate decay) - rate update. Flat, of equal length; one memory-bound
/// operation.
void muon_update(Runtime& runtime, const Tensor& parameter, const Tensor& update, double rate,
                 double decay);

}  // namespace shardsim

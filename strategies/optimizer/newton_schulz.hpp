#pragma once

#include <array>
#include <functional>
#include <span>

#include "strategies/optimizer/muon.hpp"

namespace shardsim {

/// (a, b, c) of one step: X <- a X + (b A + c A^2) X, with A = X X^T.
using MuonStep = std::array<double, 3>;

/// The steps of a set; a run of more begins anew. Source: Emerging-Optimizers, muon_utils.py.
[[nodiscard]] std::span<const MuonStep> muon_steps(MuonCoefficients coefficients);

/// The side over which a matrix is multiplied with itself: A is rows x rows, or columns x columns.
enum class GramSide : std::uint8_t { rows, columns };
/// The smaller side: the fewest operations.
[[nodiscard]] GramSide smaller_side(std::int64_t rows, std::int64_t columns);

/// Sums a tensor over ranks in place.
using SumOverCut = std::function<void(const Tensor&)>;

/// The orthogonalized X [rows, columns], in its dtype; X is overwritten. X is first divided by its
/// Frobenius norm; zero stays zero. `sum`: where X is a slice of what lies on several ranks, cut
/// along the other side than `side`; it is given the square of the norm (one fp64), then A of each
/// step. Charges per step 4 m^2 n + 2 m^3 operations, where A is m x m and X has m n elements.
/// Holds a second X and two A beside X.
[[nodiscard]] Tensor newton_schulz(Runtime& runtime, const MuonOptions& options, Tensor x,
                                   GramSide side, const SumOverCut& sum = {});

}  // namespace shardsim

#include "strategies/optimizer/newton_schulz.hpp"

#include <cmath>
#include <utility>

#include "strategies/model/row_matrix.hpp"

namespace shardsim {

namespace {

constexpr std::array<MuonStep, 1> kSimple = {{{3.4445, -4.7750, 2.0315}}};
constexpr std::array<MuonStep, 5> kQuintic = {{{4.0848, -6.8946, 2.9270},
                                               {3.9505, -6.3029, 2.6377},
                                               {3.7418, -5.5913, 2.3037},
                                               {2.8769, -3.1427, 1.2046},
                                               {2.8366, -3.0525, 1.2012}}};

// X / ||X||, in place.
void normalize(Runtime& runtime, const Tensor& x, const SumOverCut& sum) {
  const Tensor square = runtime.allocate(MemoryCategory::optimizer, {1}, DType::fp64);
  runtime.compute(memory_op("muon_norm", x.dtype(), x.num_bytes()), [&] {
    double own = 0.0;
    for (std::int64_t i = 0; i < x.numel(); ++i) own += x.get(i) * x.get(i);
    square.set(0, own);
  });
  if (sum) sum(square);
  runtime.compute(memory_op("muon_normalize", x.dtype(), 2 * x.num_bytes()), [&] {
    const double norm = std::sqrt(square.get(0));
    // A gradient of zeros has no direction.
    for (std::int64_t i = 0; norm != 0.0 && i < x.numel(); ++i) x.set(i, x.get(i) / norm);
  });
}

// A = X X^T, or X^T X.
Tensor gram_of(Runtime& runtime, const Tensor& x, GramSide side) {
  const bool by_rows = side == GramSide::rows;
  const std::int64_t m = by_rows ? x.shape()[0] : x.shape()[1];
  const std::int64_t n = x.numel() / m;
  Tensor gram = runtime.allocate(MemoryCategory::optimizer, {m, m}, x.dtype());
  const ComputeOp op = matmul_op("muon_gram", x.dtype(), m, m, n, x.num_bytes() + gram.num_bytes());
  runtime.compute(op, [&] {
    const RowMatrix of = matrix_of(x);
    const RowMatrix result = by_rows ? RowMatrix(of * of.transpose()) : of.transpose() * of;
    store(gram, values_of(result));
  });
  return gram;
}

// b A + c A^2.
Tensor polynomial_of(Runtime& runtime, const Tensor& gram, const MuonStep& step) {
  const std::int64_t m = gram.shape()[0];
  Tensor polynomial = runtime.allocate(MemoryCategory::optimizer, {m, m}, gram.dtype());
  const ComputeOp op = matmul_op("muon_polynomial", gram.dtype(), m, m, m, 3 * gram.num_bytes());
  runtime.compute(op, [&] {
    const RowMatrix a = matrix_of(gram);
    const RowMatrix result = step[1] * a + step[2] * (a * a);
    store(polynomial, values_of(result));
  });
  return polynomial;
}

// a X + P X, or a X + X P.
void apply_polynomial(Runtime& runtime, const Tensor& to, const Tensor& x, const Tensor& polynomial,
                      GramSide side, double a) {
  const bool by_rows = side == GramSide::rows;
  const std::int64_t m = polynomial.shape()[0];
  const std::int64_t n = x.numel() / m;
  const std::int64_t bytes = 3 * x.num_bytes() + polynomial.num_bytes();
  const ComputeOp op =
      matmul_op("muon_product", x.dtype(), by_rows ? m : n, by_rows ? n : m, m, bytes);
  runtime.compute(op, [&] {
    const RowMatrix of = matrix_of(x);
    const RowMatrix p = matrix_of(polynomial);
    const RowMatrix result = a * of + (by_rows ? RowMatrix(p * of) : RowMatrix(of * p));
    store(to, values_of(result));
  });
}

}  // namespace

std::span<const MuonStep> muon_steps(MuonCoefficients coefficients) {
  if (coefficients == MuonCoefficients::simple) return kSimple;
  return kQuintic;
}

GramSide smaller_side(std::int64_t rows, std::int64_t columns) {
  return rows <= columns ? GramSide::rows : GramSide::columns;
}

Tensor newton_schulz(Runtime& runtime, const MuonOptions& options, Tensor x, GramSide side,
                     const SumOverCut& sum) {
  normalize(runtime, x, sum);
  const std::span<const MuonStep> steps = muon_steps(options.coefficients);
  Tensor next = runtime.allocate(MemoryCategory::optimizer, x.shape(), x.dtype());
  for (std::int64_t i = 0; i < options.num_steps; ++i) {
    const MuonStep& step = steps[to_size(i) % steps.size()];
    const Tensor gram = gram_of(runtime, x, side);
    if (sum) sum(gram);
    apply_polynomial(runtime, next, x, polynomial_of(runtime, gram, step), side, step[0]);
    std::swap(x, next);
  }
  return x;
}

}  // namespace shardsim

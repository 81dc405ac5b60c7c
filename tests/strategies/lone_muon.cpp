#include "tests/strategies/lone_muon.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace shardsim::test {

namespace {

constexpr double kSimple[5][3] = {{3.4445, -4.7750, 2.0315},
                                  {3.4445, -4.7750, 2.0315},
                                  {3.4445, -4.7750, 2.0315},
                                  {3.4445, -4.7750, 2.0315},
                                  {3.4445, -4.7750, 2.0315}};
constexpr double kQuintic[5][3] = {{4.0848, -6.8946, 2.9270},
                                   {3.9505, -6.3029, 2.6377},
                                   {3.7418, -5.5913, 2.3037},
                                   {2.8769, -3.1427, 1.2046},
                                   {2.8366, -3.0525, 1.2012}};

struct Rows {
  std::size_t rows;
  std::size_t columns;
  std::vector<double> values = std::vector<double>(rows * columns, 0.0);

  double& at(std::size_t i, std::size_t j) { return values[i * columns + j]; }
  [[nodiscard]] double at(std::size_t i, std::size_t j) const { return values[i * columns + j]; }
};

Rows transposed(const Rows& x) {
  Rows y{x.columns, x.rows};
  for (std::size_t i = 0; i < x.rows; ++i) {
    for (std::size_t j = 0; j < x.columns; ++j) y.at(j, i) = x.at(i, j);
  }
  return y;
}

Rows product(const Rows& a, const Rows& b) {
  Rows y{a.rows, b.columns};
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t j = 0; j < b.columns; ++j) {
      for (std::size_t k = 0; k < a.columns; ++k) y.at(i, j) += a.at(i, k) * b.at(k, j);
    }
  }
  return y;
}

Rows sum_of(double a, const Rows& x, double b, const Rows& y) {
  Rows sum = x;
  for (std::size_t i = 0; i < sum.values.size(); ++i) {
    sum.values[i] = a * x.values[i] + b * y.values[i];
  }
  return sum;
}

Rows orthogonalized(const MuonOptions& muon, const Rows& m) {
  if (m.rows > m.columns) return transposed(orthogonalized(muon, transposed(m)));
  double square = 0.0;
  for (const double value : m.values) square += value * value;
  Rows x = m;
  if (square == 0.0) return x;
  for (double& value : x.values) value /= std::sqrt(square);
  const auto& steps = muon.coefficients == MuonCoefficients::simple ? kSimple : kQuintic;
  for (std::int64_t step = 0; step < muon.num_steps; ++step) {
    const double* const c = steps[step % 5];
    const Rows a = product(x, transposed(x));
    x = sum_of(c[0], x, 1.0, product(sum_of(c[1], a, c[2], product(a, a)), x));
  }
  return x;
}

double scale_by_shape(const MuonOptions& muon, double out, double in) {
  double scale = std::sqrt(std::max(out, in));
  if (muon.scale == MuonScale::shape_scaling) scale = std::sqrt(std::max(1.0, out / in));
  if (muon.scale == MuonScale::unit_rms_norm) scale = std::sqrt(out / in);
  return scale * muon.extra_scale_factor;
}

}  // namespace

void lone_muon_step(const MuonOptions& muon, const OptimizerOptions& shared,
                    const ParameterSpec& whole, const TensorSplit& cut, const Tensor& weight,
                    const Tensor& gradient, const Tensor& momentum, double gradient_scale) {
  std::vector<double> direction;
  for (std::int64_t i = 0; i < weight.numel(); ++i) {
    const double g = gradient.get(i) * gradient_scale;
    momentum.set(i, muon.momentum * momentum.get(i) + g);
    const double m = momentum.get(i);
    direction.push_back(muon.nesterov ? g + muon.momentum * m : m);
  }
  const std::int64_t columns = whole.shape[whole.shape.rank() - 1];
  const std::int64_t row_parts = cut.axis == 0 ? cut.parts : 1;
  const std::int64_t column_parts = cut.axis == 1 ? cut.parts : 1;
  std::int64_t first_row = 0;
  for (const std::int64_t rows : whole.matrix_rows) {
    const std::int64_t height = rows / row_parts;
    const std::int64_t width = columns / column_parts;
    for (std::int64_t part = 0; part < row_parts * column_parts; ++part) {
      const auto place = [&](std::int64_t i, std::int64_t j) {
        const std::int64_t row = first_row + (row_parts > 1 ? part * height : 0) + i;
        return row * columns + (column_parts > 1 ? part * width : 0) + j;
      };
      Rows block{static_cast<std::size_t>(height), static_cast<std::size_t>(width)};
      for (std::int64_t i = 0; i < height * width; ++i) {
        block.values[static_cast<std::size_t>(i)] =
            direction[static_cast<std::size_t>(place(i / width, i % width))];
      }
      block = orthogonalized(muon, block);
      const double scale =
          scale_by_shape(muon, static_cast<double>(height), static_cast<double>(width));
      for (std::int64_t i = 0; i < height * width; ++i) {
        const std::int64_t at = place(i / width, i % width);
        const double kept = weight.get(at) * (1.0 - shared.learning_rate * shared.weight_decay);
        weight.set(at,
                   kept - shared.learning_rate * scale * block.values[static_cast<std::size_t>(i)]);
      }
    }
    first_row += rows;
  }
}

}  // namespace shardsim::test

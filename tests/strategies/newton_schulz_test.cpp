#include "strategies/optimizer/newton_schulz.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <Eigen/SVD>
#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"

#include "strategies/model/row_matrix.hpp"

#include "tests/strategies/recording_runtime.hpp"

namespace shardsim::test {

namespace {

constexpr MuonCoefficients kBoth[] = {MuonCoefficients::quintic, MuonCoefficients::simple};

Tensor tensor_of_matrix(Runtime& runtime, const RowMatrix& matrix, DType dtype = DType::fp64) {
  Tensor tensor =
      runtime.allocate(MemoryCategory::optimizer, {matrix.rows(), matrix.cols()}, dtype);
  store(tensor, values_of(matrix));
  return tensor;
}

RowMatrix orthogonalized(const MuonOptions& options, const RowMatrix& matrix,
                         DType dtype = DType::fp64) {
  RecordingRuntime runtime(true);
  return matrix_of(newton_schulz(runtime, options, tensor_of_matrix(runtime, matrix, dtype),
                                 smaller_side(matrix.rows(), matrix.cols())));
}

// Fixed numbers without a pattern.
RowMatrix numbers(std::int64_t rows, std::int64_t columns, double seed) {
  RowMatrix matrix(rows, columns);
  for (std::int64_t i = 0; i < matrix.size(); ++i) {
    matrix.data()[i] = std::sin(seed + 12.9898 * static_cast<double>(i * i + 7 * i));
  }
  return matrix;
}

// U diag(values) V^T.
RowMatrix with_singular_values(std::int64_t rows, std::int64_t columns,
                               const std::vector<double>& values) {
  const Eigen::JacobiSVD<Eigen::MatrixXd> svd(numbers(rows, columns, 0.5),
                                              Eigen::ComputeThinU | Eigen::ComputeThinV);
  const Eigen::VectorXd diagonal = Eigen::VectorXd::Map(values.data(), std::ssize(values));
  return svd.matrixU() * diagonal.asDiagonal() * svd.matrixV().transpose();
}

double polynomial(const MuonOptions& options, double value) {
  const auto steps = muon_steps(options.coefficients);
  for (std::int64_t i = 0; i < options.num_steps; ++i) {
    const auto& [a, b, c] = steps[to_size(i) % steps.size()];
    value *= a + value * value * (b + value * value * c);
  }
  return value;
}

}  // namespace

TEST_CASE("each singular value goes through the polynomials alone, and vectors stay") {
  const std::vector<double> values = {4.0, 2.5, 1.0, 0.25};
  const double norm = std::sqrt(16.0 + 6.25 + 1.0 + 0.0625);
  for (const MuonCoefficients coefficients : kBoth) {
    for (const std::int64_t num_steps : {1, 5, 7}) {
      const MuonOptions options{.num_steps = num_steps, .coefficients = coefficients};
      std::vector<double> expected;
      for (const double value : values) expected.push_back(polynomial(options, value / norm));
      for (const auto& [rows, columns] : {std::pair{4, 4}, {4, 9}, {9, 4}}) {
        const RowMatrix result =
            orthogonalized(options, with_singular_values(rows, columns, values));
        const RowMatrix wanted = with_singular_values(rows, columns, expected);
        INFO(rows << " x " << columns << ", " << num_steps << " steps");
        CHECK((result - wanted).cwiseAbs().maxCoeff() < 1e-12);
      }
    }
  }
}

// The bands are of values that are not below 0.005 of the norm, rounded to two digits.
TEST_CASE("five steps bring singular values into the band of their coefficients") {
  for (const auto& [coefficients, least, most] : {std::tuple{MuonCoefficients::quintic, 0.98, 1.14},
                                                  {MuonCoefficients::simple, 0.68, 1.20}}) {
    double smallest = HUGE_VAL;
    double largest = 0.0;
    for (const auto& [rows, columns] : {std::pair{24, 24}, {16, 40}, {40, 16}, {1, 9}, {9, 1}}) {
      std::vector<double> values;
      for (std::int64_t i = 0; i < std::min(rows, columns); ++i) {
        values.push_back(std::exp(-0.3 * static_cast<double>(i % 15)));
      }
      const RowMatrix result = orthogonalized({.coefficients = coefficients},
                                              with_singular_values(rows, columns, values));
      const Eigen::JacobiSVD<Eigen::MatrixXd> svd(result);
      smallest = std::fmin(smallest, svd.singularValues().minCoeff());
      largest = std::fmax(largest, svd.singularValues().maxCoeff());
    }
    CHECK(smallest >= least - 0.005);
    CHECK(largest <= most + 0.005);
  }
}

TEST_CASE("a transposed matrix has the transposed result, and a factor changes nothing") {
  for (const MuonCoefficients coefficients : kBoth) {
    const MuonOptions options{.coefficients = coefficients};
    const RowMatrix matrix = numbers(6, 10, 2.0);
    const RowMatrix result = orthogonalized(options, matrix);
    const RowMatrix turned = orthogonalized(options, matrix.transpose());
    CHECK((result - turned.transpose()).cwiseAbs().maxCoeff() < 1e-13);
    CHECK((result - orthogonalized(options, 1e-120 * matrix)).cwiseAbs().maxCoeff() < 1e-13);
    CHECK((result + orthogonalized(options, -3.0 * matrix)).cwiseAbs().maxCoeff() < 1e-13);
  }
}

TEST_CASE("the side that is multiplied changes the cost and not the result") {
  const RowMatrix matrix = numbers(3, 8, 1.0);
  RecordingRuntime runtime(true);
  const RowMatrix by_columns =
      matrix_of(newton_schulz(runtime, {}, tensor_of_matrix(runtime, matrix), GramSide::columns));
  CHECK((by_columns - orthogonalized({}, matrix)).cwiseAbs().maxCoeff() < 1e-12);
  std::int64_t flops = 0;
  for (const ComputeOp& op : runtime.ops()) flops += op.flops;
  CHECK(flops == 5 * (4 * 8 * 8 * 3 + 2 * 8 * 8 * 8));
}

TEST_CASE("a zero matrix stays zero") {
  for (const DType dtype : {DType::fp64, DType::bf16}) {
    CHECK(orthogonalized({}, RowMatrix::Zero(3, 5), dtype).cwiseAbs().maxCoeff() == 0.0);
  }
}

TEST_CASE("bf16 keeps the result to its precision") {
  const RowMatrix matrix = numbers(8, 12, 3.0);
  const RowMatrix narrow = orthogonalized({}, matrix, DType::bf16);
  CHECK((narrow - orthogonalized({}, matrix)).cwiseAbs().maxCoeff() < 0.1);
  CHECK((narrow - orthogonalized({}, matrix)).cwiseAbs().maxCoeff() > 1e-4);
}

TEST_CASE("steps charge 4 m^2 n + 2 m^3 operations, with and without data") {
  for (const auto& [rows, columns] :
       {std::pair<std::int64_t, std::int64_t>{3, 7}, {7, 3}, {4, 4}}) {
    for (const std::int64_t num_steps : {1, 5}) {
      std::vector<std::vector<std::string>> records;
      for (const bool has_data : {true, false}) {
        RecordingRuntime runtime(has_data);
        {
          Tensor x = runtime.allocate(MemoryCategory::optimizer, {rows, columns}, DType::bf16);
          (void)newton_schulz(runtime, {.num_steps = num_steps}, std::move(x),
                              smaller_side(rows, columns));
        }
        std::int64_t flops = 0;
        for (const ComputeOp& op : runtime.ops()) flops += op.flops;
        const std::int64_t m = std::min(rows, columns);
        const std::int64_t n = std::max(rows, columns);
        CHECK(flops == num_steps * (4 * m * m * n + 2 * m * m * m));
        records.push_back(runtime.record());
      }
      CHECK(records[0] == records[1]);
    }
  }
}

TEST_CASE("updates are scaled by the shape of the whole matrix") {
  const MatrixPart wide{.rows = 2, .columns = 18, .cut_axis = 0, .parts = 4};  // [8, 18].
  const MatrixPart tall{.rows = 18, .columns = 4, .cut_axis = 1, .parts = 2};  // [18, 8].
  const auto scale = [](MuonScale mode, const MatrixPart& part) {
    return scale_of({.scale = mode, .extra_scale_factor = 0.5}, part);
  };
  CHECK(scale(MuonScale::spectral, wide) == 0.5 * std::sqrt(18.0));
  CHECK(scale(MuonScale::spectral, tall) == 0.5 * std::sqrt(18.0));
  CHECK(scale(MuonScale::shape_scaling, wide) == 0.5);
  CHECK(scale(MuonScale::shape_scaling, tall) == 0.5 * 1.5);
  CHECK(scale(MuonScale::unit_rms_norm, wide) == 0.5 * std::sqrt(8.0 / 18.0));
  CHECK(scale(MuonScale::unit_rms_norm, tall) == 0.5 * 1.5);
}

TEST_CASE("muon's settings are refused by name where they mean nothing") {
  const auto refusal = [](const MuonOptions& options) -> std::string {
    try {
      validate(options);
    } catch (const UsageError& error) {
      return error.what();
    }
    return {};
  };
  CHECK(refusal({}).empty());
  CHECK(refusal({.momentum = 1.0}).find("momentum") != std::string::npos);
  CHECK(refusal({.momentum = -0.1}).find("momentum") != std::string::npos);
  CHECK(refusal({.num_steps = 0}).find("num_steps") != std::string::npos);
  CHECK(refusal({.extra_scale_factor = 0.0}).find("extra_scale_factor") != std::string::npos);
  CHECK(refusal({.extra_scale_factor = NAN}).find("extra_scale_factor") != std::string::npos);
}

}  // namespace shardsim::test

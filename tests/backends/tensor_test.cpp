#include "backends/tensor.hpp"

#include <limits>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/kernel/error.hpp"
#include "sim/kernel/hash.hpp"

using namespace shardsim;

namespace {

Tensor real(const Shape& shape, DType dtype) {
  return Tensor::allocate(nullptr, MemoryCategory::activations, shape, dtype, /*meta=*/false);
}

}  // namespace

TEST_CASE("a shape knows its dimensions and how many elements they make") {
  const Shape shape{2, 16, 64, 3};
  CHECK(shape.rank() == 4);
  CHECK(shape[0] == 2);
  CHECK(shape[3] == 3);
  CHECK(shape.numel() == 2 * 16 * 64 * 3);
  CHECK(shape.to_string() == "[2, 16, 64, 3]");
  CHECK(Shape{}.numel() == 1);
  CHECK(Shape{0}.numel() == 0);
  CHECK(Shape{5, 0}.numel() == 0);
  CHECK(Shape{5} == Shape{5});
  CHECK(!(Shape{5} == Shape{5, 1}));
  CHECK(!(Shape{2, 3} == Shape{3, 2}));
}

TEST_CASE("the first dimension may be as large as a flat model, the others 31 bits") {
  const std::int64_t huge = 405'000'000'000;
  CHECK(Shape{huge}.numel() == huge);
  CHECK(Shape{huge, 3}[0] == huge);
  const std::int64_t largest = std::numeric_limits<std::int32_t>::max();
  CHECK(Shape{1, largest}[1] == largest);
  CHECK_THROWS_AS((Shape{1, largest + 1}), LimitError);
}

TEST_CASE("shapes that cannot be are refused") {
  CHECK_THROWS_AS((Shape{1, 2, 3, 4, 5}), UsageError);
  CHECK_THROWS_AS((Shape{2, -1}), UsageError);
  CHECK_THROWS_AS((Shape{std::int64_t{1} << 40, 1 << 24}), LimitError);
  const Shape bytes_overflow{std::int64_t{1} << 61};
  CHECK_THROWS_AS(
      Tensor::allocate(nullptr, MemoryCategory::params, bytes_overflow, DType::fp64, true),
      LimitError);
}

TEST_CASE("the ledger holds a tensor as long as any copy or view of it lives") {
  RollingHash hash;
  MemoryLedger ledger(hash);
  Tensor view;
  {
    const Tensor tensor =
        Tensor::allocate(&ledger, MemoryCategory::grads, {4, 8}, DType::bf16, /*meta=*/true);
    CHECK(!tensor.has_data());
    CHECK(tensor.num_bytes() == 64);
    const Tensor copy = tensor;
    view = copy.view(8, {2, 4});
    CHECK(ledger.now(MemoryCategory::grads) == 64);
  }
  CHECK(ledger.now(MemoryCategory::grads) == 64);
  Tensor moved = std::move(view);
  CHECK(moved.num_bytes() == 16);
  moved = {};
  CHECK(ledger.now(MemoryCategory::grads) == 0);
  CHECK(!moved.defined());
}

TEST_CASE("storage is used again without mixing tensors up") {
  RollingHash hash;
  MemoryLedger ledger(hash);
  std::vector<Tensor> kept;
  for (int round = 0; round < 3; ++round) {
    for (std::int64_t i = 0; i < 1000; ++i) {
      kept.push_back(Tensor::allocate(&ledger, MemoryCategory::comm, {i}, DType::int8, false));
      if (i > 0) kept.back().set(i - 1, static_cast<double>(i % 100));
    }
    std::int64_t bytes = 0;
    for (std::int64_t i = 0; i < 1000; ++i) {
      const Tensor& tensor = kept[static_cast<std::size_t>(i)];
      REQUIRE(tensor.numel() == i);
      REQUIRE((i == 0 || tensor.get(i - 1) == static_cast<double>(i % 100)));
      bytes += i;
    }
    CHECK(ledger.now(MemoryCategory::comm) == bytes);
    kept.clear();
    CHECK(ledger.now(MemoryCategory::comm) == 0);
  }
}

TEST_CASE("a view shares elements with its tensor and cannot reach past it") {
  const Tensor tensor = real({2, 3}, DType::fp32);
  const Tensor view = tensor.view(2, {3});
  view.set(0, 7.0);
  CHECK(tensor.get(2) == 7.0);
  CHECK(tensor.flat().shape() == Shape{6});
  CHECK(tensor.view(6, {0}).numel() == 0);
  CHECK_THROWS_AS(tensor.view(4, {3}), UsageError);
  CHECK_THROWS_AS(tensor.view(-1, {1}), UsageError);
}

TEST_CASE("elements are zero at first and rounded once when stored") {
  const Tensor tensor = real({3}, DType::bf16);
  CHECK(tensor.get(2) == 0.0);
  // Halfway between two bf16 values but for 2^-30: through fp32 it would be a tie, and go to even.
  store(tensor, std::vector<double>{1.0 + 0x1p-8 + 0x1p-30, 1.0 + 0x1p-8, 1.0 + 3 * 0x1p-8});
  CHECK(tensor.get(0) == 1.0 + 0x1p-7);
  CHECK(tensor.get(1) == 1.0);
  CHECK(tensor.get(2) == 1.0 + 0x1p-6);
  const Tensor whole = real({2}, DType::int32);
  whole.set(0, -2.9);
  CHECK(whole.get(0) == -2.0);
  CHECK_THROWS_AS(real({1}, DType::fp8_e4m3).get(0), UsageError);
}

TEST_CASE("a shape that cannot be comes with the way out") {
  const auto outcome_of = [](auto make) {
    try {
      static_cast<void>(make());
    } catch (const shardsim::UsageError& error) {
      return error.code() + (error.fix().empty() ? " without a fix" : " with a fix");
    }
    return std::string("accepted");
  };
  CHECK(outcome_of([] { return shardsim::Shape({1, 2, 3, 4, 5}); }) == "E0501 with a fix");
  CHECK(outcome_of([] { return shardsim::Shape({2, -1}); }) == "E0502 with a fix");
}

#include <algorithm>
#include <cstddef>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "strategies/model/parameter_table.hpp"

namespace shardsim::test {
namespace {

Tensor zero_weights(const Shape& shape) {
  return Tensor::allocate(nullptr, MemoryCategory::params, shape, DType::fp64, false);
}

// Elements of the whole parameter that `part` has, in the order in which they lie in the part; -1
// for those that only fill up. Asked for in pieces of `step` elements.
std::vector<std::int64_t> places(const ParameterSpec& spec, int part, std::int64_t step) {
  std::vector<std::int64_t> found(static_cast<std::size_t>(spec.shape.numel()), -1);
  for (std::int64_t first = 0; first < spec.shape.numel(); first += step) {
    const std::int64_t count = std::min(step, spec.shape.numel() - first);
    for_each_whole_run(spec, part, first, count, [&](const WholeRun& run) {
      for (std::int64_t i = 0; i < run.count; ++i) {
        found.at(static_cast<std::size_t>(first + run.at + i)) = run.whole_first + i;
      }
    });
  }
  return found;
}

ParameterSpec split(const Shape& whole, int axis, int parts,
                    std::vector<std::int64_t> sections = {}) {
  ParameterTable table;
  table.begin_unit("unit");
  table.add_split("w", whole, {Init::Kind::bell, 1.0}, axis, parts, std::move(sections));
  return table.specs().front();
}

}  // namespace

TEST_CASE("rows, columns and sections are cut where they should be") {
  CHECK(places(split({4, 3}, 0, 2), 1, 100) == std::vector<std::int64_t>{6, 7, 8, 9, 10, 11});
  CHECK(places(split({2, 4}, 1, 2), 1, 100) == std::vector<std::int64_t>{2, 3, 6, 7});
  // q of four rows, k and v of two: part 1 has the second half of each.
  CHECK(places(split({8, 1}, 0, 2, {4, 2, 2}), 1, 100) == std::vector<std::int64_t>{2, 3, 5, 7});
  // Five rows for two ranks: the second fills up.
  CHECK(places(split({5}, 0, 2), 1, 100) == std::vector<std::int64_t>{3, 4, -1});
  CHECK(split({4, 3}, 0, 1).is_split() == false);
}

TEST_CASE("neighbours have copies of heads of keys and values that are fewer than ranks") {
  const auto of_heads = [](std::int64_t heads, int parts) {
    ParameterTable table;
    table.begin_unit("unit");
    table.add_for_groups("w", {heads * 2, 1}, {Init::Kind::bell, 1.0}, heads, parts);
    return table.specs().front();
  };
  const auto places_on = [](const ParameterSpec& spec, int rank) {
    return places(spec, PartIndex{.tensor = rank}.of(spec), 100);
  };
  const ParameterSpec copied = of_heads(2, 6);
  CHECK(copied.is_copied());
  CHECK(!copied.sum_over_tp);
  CHECK(copied.split.copies == 3);
  CHECK(copied.matrix_rows == std::vector<std::int64_t>{2});
  for (const int rank : {0, 1, 2})
    CHECK(places_on(copied, rank) == std::vector<std::int64_t>{0, 1});
  for (const int rank : {3, 4, 5})
    CHECK(places_on(copied, rank) == std::vector<std::int64_t>{2, 3});
  // One head is whole on each rank, and its gradient a sum over all of them.
  const ParameterSpec one = of_heads(1, 4);
  CHECK(!one.is_split());
  CHECK(one.sum_over_tp);
  CHECK(places_on(one, 3) == std::vector<std::int64_t>{0, 1});
  // As many as ranks, or more, are cut.
  for (const std::int64_t heads : {2, 4}) {
    const ParameterSpec cut = of_heads(heads, 2);
    CHECK(cut.is_split());
    CHECK(!cut.is_copied());
    CHECK(places_on(cut, 1).front() == heads);
  }
}

TEST_CASE("parts are disjoint, cover the whole and do not depend on how they are asked for") {
  for (const ParameterSpec& spec :
       {split({12, 5}, 0, 3), split({4, 12}, 1, 3), split({24, 2}, 0, 3, {12, 6, 6}),
        split({7, 2}, 0, 3), split({9}, 0, 3), split({2, 3}, 0, 3)}) {
    std::multiset<std::int64_t> seen;
    for (int part = 0; part < 3; ++part) {
      const std::vector<std::int64_t> whole = places(spec, part, 1000);
      CHECK(places(spec, part, 1) == whole);
      CHECK(places(spec, part, 5) == whole);
      for (const std::int64_t place : whole) {
        if (place >= 0) seen.insert(place);
      }
    }
    CHECK(static_cast<std::int64_t>(seen.size()) == spec.whole_shape().numel());
    CHECK(std::set<std::int64_t>(seen.begin(), seen.end()).size() == seen.size());
  }
}

TEST_CASE("what fills a part up is what has no place in the whole") {
  for (const ParameterSpec& spec : {split({12, 5}, 0, 3), split({4, 12}, 1, 3), split({7, 2}, 0, 3),
                                    split({9}, 0, 3), split({2, 3}, 0, 3), split({2, 4}, 1, 3),
                                    split({8, 2}, 0, 3, {4, 2, 2}), split({7, 2}, 0, 1)}) {
    for (int part = 0; part < spec.split.parts; ++part) {
      const std::vector<std::int64_t> whole = places(spec, part, 1000);
      std::vector<std::int64_t> missing = whole;
      for (const ElementRange& range : filling(spec, part)) {
        for (std::int64_t i = range.begin; i < range.end; ++i) {
          CHECK(whole.at(static_cast<std::size_t>(i)) == -1);
          missing.at(static_cast<std::size_t>(i)) = 0;
        }
      }
      CHECK(std::count(missing.begin(), missing.end(), -1) == 0);
      const auto inside =
          std::min<std::ptrdiff_t>(3, static_cast<std::ptrdiff_t>(whole.size()) - 1);
      const auto first = whole.begin() + 1;
      CHECK(num_filling(spec, part, 1, inside) == std::count(first, first + inside, -1));
    }
  }
}

TEST_CASE("a part starts with the values it has in the whole, and what fills up with zeros") {
  const ParameterSpec spec = split({5, 2}, 0, 2);
  const Tensor whole = zero_weights({5, 2});
  initialize({"w", {5, 2}, spec.init}, 0, 7, 0, whole);
  const Tensor part = zero_weights({3, 2});
  initialize(spec, 1, 7, 0, part);
  for (std::int64_t i = 0; i < 4; ++i) CHECK(part.get(i) == whole.get(6 + i));
  CHECK(part.get(4) == 0.0);
  CHECK(part.get(5) == 0.0);
}

}  // namespace shardsim::test

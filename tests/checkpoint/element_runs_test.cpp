#include <numeric>
#include <vector>

#include "sim/kernel/error.hpp"

#include "strategies/checkpoint/chunk.hpp"

#include "tests/checkpoint/draw.hpp"
#include "tests/property/check_property.hpp"

namespace shardsim::test {
namespace {

// The elements one by one: the obvious version.
std::vector<std::int64_t> listed(const ElementRuns& runs) {
  std::vector<std::int64_t> elements;
  for (const ElementRun& run : runs) {
    for (std::int64_t i = 0; i < run.repeats; ++i) {
      for (std::int64_t k = 0; k < run.count; ++k) {
        elements.push_back(run.first + i * run.stride + k);
      }
    }
  }
  return elements;
}

ElementRun draw_run(std::int64_t numel) {
  ElementRun run;
  run.first = draw<std::int64_t>(0, (numel + 1) / 2);
  const std::int64_t longest = std::min<std::int64_t>(numel - run.first, 6);
  run.count = draw<std::int64_t>(1, longest + 1);
  run.stride = draw<std::int64_t>(run.count, run.count + 5);
  const std::int64_t most = (numel - run.first - run.count) / run.stride + 1;
  run.repeats = draw<std::int64_t>(1, most + 1);
  return run;
}

TEST_CASE("a box is named in the order of its elements") {
  int of_several_runs = 0;
  check_property(1000, [&] {
    const auto dims = std::min<std::size_t>(4, draw<std::size_t>(0, 8));
    std::vector<std::int64_t> shape(dims);
    std::vector<std::int64_t> offset(dims);
    std::vector<std::int64_t> extent(dims);
    for (std::size_t d = 0; d < dims; ++d) {
      // Nothing in some dimension leaves nothing of the box, so it is drawn seldom.
      const std::int64_t least = draw(0, 20) == 19 ? 0 : 1;
      shape[d] = draw<std::int64_t>(least, 6);
      offset[d] = draw<std::int64_t>(0, shape[d] - least + 1);
      extent[d] = draw<std::int64_t>(least, shape[d] - offset[d] + 1);
    }
    const std::int64_t numel = checked_numel(shape).value();
    std::vector<std::int64_t> expected;
    for (std::int64_t element = 0; element < numel; ++element) {
      std::int64_t rest = element;
      bool inside = true;
      for (std::size_t d = dims; d-- > 0; rest /= shape[d]) {
        const std::int64_t at = rest % shape[d];
        inside = inside && at >= offset[d] && at < offset[d] + extent[d];
      }
      if (inside) expected.push_back(element);
    }
    const ElementRuns runs = runs_of_box(shape, offset, extent);
    RC_ASSERT(listed(runs) == expected);
    RC_ASSERT(!problem_of(runs, numel));
    RC_ASSERT(num_elements(runs) == static_cast<std::int64_t>(expected.size()));
    if (runs.size() > 1) ++of_several_runs;
  });
  CHECK(of_several_runs > 50);
}

TEST_CASE("slices along one dimension are one run") {
  const std::vector<std::int64_t> shape = {6, 4, 10};
  CHECK(runs_of_box(shape, std::vector<std::int64_t>{2, 0, 0},
                    std::vector<std::int64_t>{3, 4, 10}) == ElementRuns{{80, 120, 0, 1}});
  CHECK(runs_of_box(shape, std::vector<std::int64_t>{0, 1, 0},
                    std::vector<std::int64_t>{6, 2, 10}) == ElementRuns{{10, 20, 40, 6}});
  CHECK(runs_of_box(shape, std::vector<std::int64_t>{0, 0, 5},
                    std::vector<std::int64_t>{6, 4, 5}) == ElementRuns{{5, 5, 10, 24}});
}

TEST_CASE("a box that reaches outside is refused") {
  const std::vector<std::int64_t> shape = {2, 3};
  const std::vector<std::int64_t> zero = {0, 0};
  CHECK_THROWS_AS(runs_of_box(shape, zero, std::vector<std::int64_t>{2, 4}), UsageError);
  CHECK_THROWS_AS(runs_of_box(shape, std::vector<std::int64_t>{-1, 0}, zero), UsageError);
  CHECK_THROWS_AS(runs_of_box(shape, zero, std::vector<std::int64_t>{2}), UsageError);
  CHECK_THROWS_AS(runs_of_box(shape, std::vector<std::int64_t>{3, 0}, zero), UsageError);
}

TEST_CASE("overlaps of two runs are found, each element once, with its places") {
  int of_many_stretches = 0;
  check_property(2000, [&] {
    const auto numel = draw<std::int64_t>(1, 60);
    const ElementRun a = draw_run(numel);
    const ElementRun b = draw_run(numel);
    const std::vector<std::int64_t> in_a = listed({a});
    const std::vector<std::int64_t> in_b = listed({b});
    std::vector<std::int64_t> expected;
    std::set_intersection(in_a.begin(), in_a.end(), in_b.begin(), in_b.end(),
                          std::back_inserter(expected));
    std::vector<std::int64_t> found;
    int stretches = 0;
    for_each_overlap(
        a, b, [&](std::int64_t first, std::int64_t count, std::int64_t at_a, std::int64_t at_b) {
          ++stretches;
          for (std::int64_t i = 0; i < count; ++i) {
            found.push_back(first + i);
            RC_ASSERT(in_a.at(static_cast<std::size_t>(at_a + i)) == first + i);
            RC_ASSERT(in_b.at(static_cast<std::size_t>(at_b + i)) == first + i);
          }
        });
    RC_ASSERT(found == expected);
    if (stretches > 2) ++of_many_stretches;
  });
  CHECK(of_many_stretches > 100);
}

TEST_CASE("overlaps of long runs take steps for what they share, not for their pieces") {
  const ElementRun comb{.first = 0, .count = 1, .stride = 2, .repeats = std::int64_t{1} << 40};
  const ElementRun block{.first = std::int64_t{1} << 39, .count = 6, .stride = 0, .repeats = 1};
  int stretches = 0;
  for_each_overlap(comb, block, [&](auto...) { ++stretches; });
  for_each_overlap(block, comb, [&](auto...) { ++stretches; });
  CHECK(stretches == 6);
}

TEST_CASE("runs that are no part of a tensor are told apart without overflow") {
  constexpr std::int64_t kHuge = INT64_MAX;
  CHECK_FALSE(problem_of(ElementRuns{{0, 10, 0, 1}}, 10));
  CHECK_FALSE(problem_of(ElementRuns{{1, 2, 4, 2}, {3, 2, 0, 1}}, 7));
  CHECK_FALSE(problem_of(ElementRuns{{0, 3, 0, 1}, {0, 3, 0, 1}}, 6));  // Twice the same: allowed.
  for (const ElementRun& bad :
       {ElementRun{-1, 2, 0, 1}, ElementRun{0, 0, 0, 1}, ElementRun{0, -1, 0, 1},
        ElementRun{0, 1, 1, 0}, ElementRun{0, 2, 1, 2}, ElementRun{0, 1, -1, 2},
        ElementRun{9, 2, 0, 1}, ElementRun{0, 1, 10, 2}, ElementRun{0, 1, kHuge, 2},
        ElementRun{0, 1, kHuge / 2, 3}, ElementRun{kHuge, 1, 0, 1},
        ElementRun{0, kHuge, kHuge, kHuge}, ElementRun{1, kHuge, 0, 1},
        ElementRun{kHuge, kHuge, kHuge, kHuge}}) {
    INFO(bad.first << " " << bad.count << " " << bad.stride << " " << bad.repeats);
    CHECK(problem_of(ElementRuns{bad}, 10));
  }
  CHECK(problem_of(ElementRuns{{0, 10, 0, 1}, {0, 1, 0, 1}}, 10));  // More than there are.
}

TEST_CASE("a number of elements that no file could hold is refused") {
  CHECK(checked_numel(std::vector<std::int64_t>{}) == 1);
  CHECK(checked_numel(std::vector<std::int64_t>{3, 0, 5}) == 0);
  CHECK(checked_numel(std::vector<std::int64_t>{1 << 30, 1 << 30 >> 1}) == std::int64_t{1} << 59);
  CHECK_FALSE(checked_numel(std::vector<std::int64_t>{1 << 30, 1 << 30}));
  CHECK_FALSE(checked_numel(std::vector<std::int64_t>{0, INT64_MAX, INT64_MAX}));
  CHECK_FALSE(checked_numel(std::vector<std::int64_t>{2, -1}));
}

TEST_CASE("the first element that is not held once is found") {
  int verdicts[3] = {0, 0, 0};  // Whole, gap, overlap.
  check_property(1000, [&] {
    const auto numel = draw<std::int64_t>(1, 30);
    std::vector<OwnedRun> runs;
    std::vector<int> holders(static_cast<std::size_t>(numel), 0);
    // Whole rows of pieces that just fit, less often a random run: both verdicts must come up.
    const auto width = draw<std::int64_t>(1, 5);
    for (std::int64_t first = 0; first < std::min(width, numel); ++first) {
      if (draw(0, 12) == 0) continue;
      runs.push_back({{first, 1, width, (numel - first - 1) / width + 1}, static_cast<int>(first)});
    }
    if (draw(0, 6) == 0) runs.push_back({draw_run(numel), 99});
    for (const OwnedRun& owned : runs) {
      for (const std::int64_t element : listed({owned.run})) {
        ++holders[static_cast<std::size_t>(element)];
      }
    }
    std::int64_t first_wrong = 0;
    while (first_wrong < numel && holders[static_cast<std::size_t>(first_wrong)] == 1)
      ++first_wrong;
    const auto fault = find_partition_fault(runs, numel);
    RC_ASSERT(fault.has_value() == (first_wrong < numel));
    ++verdicts[!fault ? 0 : fault->owner < 0 ? 1 : 2];
    if (!fault) return;
    RC_ASSERT(fault->element == first_wrong);
    RC_ASSERT((fault->owner < 0) == (holders[static_cast<std::size_t>(first_wrong)] == 0));
    RC_ASSERT(fault->owner < 0 || fault->owner != fault->other);
  });
  for (const int verdict : verdicts) CHECK(verdict > 50);
}

TEST_CASE("the partition of a long seamless run takes one step") {
  constexpr std::int64_t kLong = std::int64_t{1} << 50;
  CHECK_FALSE(find_partition_fault({{{0, 1, 1, kLong}, 0}}, kLong));
  CHECK(find_partition_fault({{{0, 1, 1, kLong}, 0}}, kLong + 1)->element == kLong);
}

}  // namespace
}  // namespace shardsim::test

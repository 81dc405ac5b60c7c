#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <rapidcheck.h>

#include "sim/kernel/error.hpp"

#include "sim/harness/drawn_check.hpp"
#include "sim/harness/testing/rapidcheck_meshes.hpp"

// A check whose layouts, sizes, seeds and precisions RapidCheck draws, for rapidcheck.hpp.
//
//   const shardsim::CheckReport report =
//       shardsim::check(program, {.name = "mine"}, {.extents = {{"hidden", 1, 40}}});
namespace shardsim {

/// A size that is drawn, from `least` to `most`; the program asks for it by its name
/// (RankContext::extent).
struct DrawnExtent {
  std::string name;
  std::int64_t least = 1;
  std::int64_t most = 32;
};

/// Ranges of a drawn check, and how often it is drawn.
struct Draws {
  int cases = 100;
  /// Meshes. A program that only looks at its communicator sees numbers of ranks.
  rc::Gen<MeshShape> layouts = gen::mesh_shapes(8);
  std::vector<DrawnExtent> extents;
  /// A failure shrinks towards the first.
  std::vector<DType> precisions = {DType::fp64, DType::fp32, DType::bf16};
  /// Whether the program is made for a point; empty: for all.
  std::function<bool(const DrawnPoint&)> accepts;
  /// The program's name in the test that a failure prints.
  std::string program = "program";
  /// Empty: RapidCheck's, which is another in each run but for RC_PARAMS="seed=N".
  std::optional<std::uint64_t> seed;
};

namespace gen {

/// Seeds of data are 1 to this: all are alike, and small numbers are read more easily.
inline constexpr std::uint64_t kMostSeed = 1000;

/// REQUIRES: at least one precision. Shrinks its layout first.
[[nodiscard]] inline rc::Gen<DrawnPoint> drawn_points(const Draws& draws) {
  return rc::gen::exec([draws] {
    DrawnPoint point{.layout = *draws.layouts};
    for (const DrawnExtent& extent : draws.extents) {
      point.extents.push_back(
          {extent.name, *rc::gen::inRange<std::int64_t>(extent.least, extent.most + 1)});
    }
    point.precision = draws.precisions[*rc::gen::inRange<std::size_t>(0, draws.precisions.size())];
    point.seed = *rc::gen::inRange<std::uint64_t>(1, kMostSeed + 1);
    return point;
  });
}

namespace detail {
inline void refuse_meaningless(const Draws& draws) {
  const auto wrong = std::ranges::find_if(
      draws.extents, [](const DrawnExtent& extent) { return extent.least > extent.most; });
  if (wrong != draws.extents.end()) {
    throw UsageError("E1213", "the extent \"" + wrong->name + "\" has a least above its most",
                     "give the smaller one first");
  }
  if (draws.precisions.empty()) {
    throw UsageError("E1213", "there are no precisions to draw", "give one at least");
  }
}

inline DrawnTree tree_of(const rc::Shrinkable<DrawnPoint>& drawn) {
  return {.point = drawn.value(), .simpler = [drawn]() -> DrawnTree::Next {
            return [shrinks = drawn.shrinks()]() mutable -> std::optional<DrawnTree> {
              const rc::Maybe<rc::Shrinkable<DrawnPoint>> next = shrinks.next();
              return next ? std::optional(tree_of(*next)) : std::nullopt;
            };
          }};
}
}  // namespace detail

}  // namespace gen

/// Checks `program` at points that are drawn, by `options` but for what is drawn. The report of a
/// failure is that of the smallest check that fails alike, with a test to paste. Throws UsageError
/// for draws without a meaning (E1213), or where a tenth of what is drawn is not accepted (E1214).
[[nodiscard]] inline CheckReport check(const Program& program, const CheckOptions& options,
                                       const Draws& draws) {
  gen::detail::refuse_meaningless(draws);
  constexpr int kLargestSize = 100;  // RapidCheck's own: cases grow up to it.
  const std::uint64_t seed = draws.seed.value_or(rc::detail::configuration().testParams.seed);
  const rc::Gen<DrawnPoint> points = gen::drawn_points(draws);
  rc::Random random(seed);
  const int cycle = std::max(draws.cases, 1);
  return check_drawn(program, options,
                     {.cases = draws.cases,
                      .accepts = draws.accepts,
                      .program = draws.program,
                      .source = "seed " + std::to_string(seed)},
                     [&](int number) {
                       const int size = number % cycle * kLargestSize / cycle;
                       return gen::detail::tree_of(points(random.split(), size));
                     });
}

}  // namespace shardsim

#include "sim/harness/testing/rapidcheck.hpp"

#include <algorithm>
#include <set>

#include "backends/fiber/fiber_world.hpp"

#include "tests/backends/fiber_fixture.hpp"
#include "tests/property/check_property.hpp"

namespace shardsim {

namespace {

constexpr int kMostRanks = 12;
constexpr int kCases = 200;

using Numbers = std::vector<std::int64_t>;

/// The value that a generator shrinks to when everything is wrong.
template <class Value>
std::string smallest_of(const rc::Gen<Value>& values) {
  rc::detail::TestParams params;
  params.seed = test::property_seed();
  const rc::detail::TestResult result = rc::detail::checkTestable(
      [&] {
        *values.as("value");
        RC_FAIL("whatever it is");
      },
      rc::detail::TestMetadata(), params);
  return result.template get<rc::detail::FailureResult>().counterExample.front().second;
}

bool has_zero(const Numbers& numbers) {
  return std::find(numbers.begin(), numbers.end(), 0) != numbers.end();
}

bool are_equal(const Numbers& numbers) {
  return std::set<std::int64_t>(numbers.begin(), numbers.end()).size() == 1;
}

}  // namespace

TEST_CASE("every mesh drawn has at most so many ranks, can be made, and all axes get their turn") {
  std::set<std::string> axes;
  int largest = 0;
  test::check_property(kCases, [&] {
    const MeshShape shape = *gen::mesh_shapes(kMostRanks);
    RC_ASSERT(shape.size() <= kMostRanks);
    RC_ASSERT(shape.dp_shard * shape.cp * shape.tp % (shape.ep * shape.etp) == 0);
    run_ranks(shape.size(), [&](Runtime&, Communicator& world) {
      RC_ASSERT(Mesh(world, shape).shape().ep == shape.ep);
    });
    largest = std::max(largest, shape.size());
    if (shape.dp_shard > 1) axes.insert("dp_shard");
    if (shape.dp_replicate > 1) axes.insert("dp_replicate");
    if (shape.tp > 1) axes.insert("tp");
    if (shape.pp > 1) axes.insert("pp");
    if (shape.cp > 1) axes.insert("cp");
    if (shape.ep > 1) axes.insert("ep");
    if (shape.etp > 1) axes.insert("etp");
  });
  CHECK(axes.size() == 7);
  CHECK(largest == kMostRanks);
  CHECK(smallest_of(gen::mesh_shapes(kMostRanks)) ==
        "dp_shard 1 x dp_replicate 1 x tp 1 x pp 1 x cp 1, ep 1, etp 1");
}

TEST_CASE("cuts add up to the whole; some are empty and some uneven; they shrink to even ones") {
  int empty = 0;
  int uneven = 0;
  test::check_property(kCases, [&] {
    const int ranks = *gen::rank_counts(kMostRanks);
    RC_ASSERT(ranks >= 1 && ranks <= kMostRanks);
    const auto elements = *rc::gen::inRange<std::int64_t>(0, 1000);
    const Numbers counts = *gen::cuts(elements, ranks);
    RC_ASSERT(counts.size() == static_cast<std::size_t>(ranks));
    RC_ASSERT(*std::min_element(counts.begin(), counts.end()) >= 0);
    RC_ASSERT(gen::detail::sum_of(counts) == elements);
    empty += elements > ranks && has_zero(counts) ? 1 : 0;
    uneven += elements > ranks && !are_equal(counts) ? 1 : 0;
  });
  CHECK(empty > kCases / 10);
  CHECK(uneven > kCases / 2);
  CHECK(smallest_of(gen::cuts(12, 3)) == "[4, 4, 4]");
}

TEST_CASE("tokens of ranks are unequal, some have none, and never do all") {
  constexpr std::int64_t kMost = 20;
  int zero = 0;
  int unequal = 0;
  test::check_property(kCases, [&] {
    const Numbers counts = *gen::token_counts(4, kMost);
    RC_ASSERT(counts.size() == 4U);
    RC_ASSERT(*std::min_element(counts.begin(), counts.end()) >= 0);
    RC_ASSERT(*std::max_element(counts.begin(), counts.end()) <= kMost);
    RC_ASSERT(gen::detail::sum_of(counts) > 0);
    zero += has_zero(counts) ? 1 : 0;
    unequal += are_equal(counts) ? 0 : 1;
  });
  CHECK(zero > kCases / 3);
  CHECK(unequal > kCases / 2);
  CHECK(smallest_of(gen::token_counts(3, kMost)) == "[1, 0, 0]");
}

TEST_CASE("small models of every family can be made") {
  for (const std::string_view family : model_families()) {
    std::set<std::int64_t> sizes;
    test::check_property(kCases, [&] {
      const ModelOptions options = *gen::small_models(std::string(family));
      RC_ASSERT(make_model(options)->num_modules() > 0);
      sizes.insert(options.hidden_size);
    });
    CHECK(sizes.size() > 3);
  }
}

}  // namespace shardsim

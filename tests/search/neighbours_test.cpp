#include "sim/search/neighbours.hpp"

#include <set>

#include <catch2/catch.hpp>

#include "tests/search/search_fixture.hpp"
#include "tests/temporary_folder.hpp"

namespace shardsim::test {

namespace {

std::size_t num_differences(const Candidate& a, const Candidate& b) {
  return static_cast<std::size_t>(a.tp != b.tp) + static_cast<std::size_t>(a.cp != b.cp) +
         static_cast<std::size_t>(a.pp != b.pp) + static_cast<std::size_t>(a.ep != b.ep) +
         static_cast<std::size_t>(a.recompute != b.recompute) +
         static_cast<std::size_t>(a.micro_batch_size != b.micro_batch_size) +
         static_cast<std::size_t>(a.zero_stage != b.zero_stage);
}

LayoutSpace space_of(const SmallSpace& space) {
  const TemporaryFolder folder;
  const SearchBase base = prepare_search(request_of(space, folder / "model.json"));
  return {compile(base.scenario), base.fixed};
}

}  // namespace

TEST_CASE("neighbours are other candidates, each once, and most differ in one or two choices") {
  for (const SmallSpace& small : small_spaces()) {
    INFO(small.name);
    const LayoutSpace space = space_of(small);
    std::size_t num_near = 0;
    std::size_t num_all = 0;
    for (std::uint32_t block = 0; block < space.blocks().size(); ++block) {
      LayoutPlace place;
      place.block = block;
      const Candidate candidate = space.candidate(place);
      std::set<std::size_t> seen = {space.index(place)};
      for (const LayoutPlace& neighbour : neighbours_of(space, candidate)) {
        CHECK(seen.insert(space.index(neighbour)).second);
        CHECK_FALSE(space.candidate(neighbour) == candidate);
        num_near += num_differences(space.candidate(neighbour), candidate) <= 2 ? 1 : 0;
        ++num_all;
      }
      CHECK(seen.size() > 1);
    }
    CHECK(num_near * 2 > num_all);
  }
}

// A walk over neighbours alone must be able to leave any split of the model.
TEST_CASE("every split of a model is reached over neighbours") {
  const LayoutSpace space = space_of(small_space("experts"));
  std::vector<Candidate> left = {space.candidate({})};
  std::set<std::uint32_t> reached = {0};
  while (!left.empty()) {
    const Candidate candidate = left.back();
    left.pop_back();
    for (const LayoutPlace& place : neighbours_of(space, candidate)) {
      if (reached.insert(place.block).second) left.push_back(space.candidate(place));
    }
  }
  CHECK(reached.size() == space.blocks().size());
}

}  // namespace shardsim::test

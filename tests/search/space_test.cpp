#include <algorithm>
#include <set>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/kernel/error.hpp"

#include "scenarios/scenario_error.hpp"
#include "sim/search/layout_space.hpp"

#include "tests/search/search_fixture.hpp"
#include "tests/temporary_folder.hpp"

namespace shardsim::test {

namespace {

bool is_accepted(const SearchBase& base, const Candidate& candidate) {
  try {
    (void)scenario_of(base, candidate);
    return true;
  } catch (const ScenarioError&) {
    return false;
  }
}

// Every combination of some values that has the machine's ranks, whether it divides anything or
// not.
std::vector<Candidate> lattice(std::int64_t ranks, std::int64_t batch) {
  std::vector<Candidate> all;
  for (const std::int64_t tp : {1, 2, 3, 4, 8}) {
    for (const std::int64_t cp : {1, 2, 4}) {
      for (const std::int64_t pp : {1, 2, 4, 8}) {
        if (ranks % (tp * cp * pp) != 0) continue;
        const std::int64_t dp = ranks / (tp * cp * pp);
        for (const std::int64_t size : {1, 2, 3, 8}) {
          for (const std::string_view schedule :
               {"none", "1f1b", "gpipe", "interleaved_1f1b", "zb_h1", "zb_h2", "zb_v", "v_half",
                "v_min", "dualpipe_v"}) {
            for (const std::int64_t vpp : {1, 2}) {
              all.push_back({.tp = tp,
                             .pp = pp,
                             .cp = cp,
                             .vpp = vpp,
                             .dp_shard = dp,
                             .micro_batch_size = size,
                             .num_microbatches = batch / (dp * size),
                             .zero_stage = dp * cp > 1 ? 1 : 0,
                             .sequence_parallel = tp > 1,
                             .schedule = schedule});
            }
          }
        }
      }
    }
  }
  return all;
}

}  // namespace

TEST_CASE("what is searched is what the reader accepts, no more and no less") {
  const std::int64_t groups = GENERATE(8, 2);  // Two: ranks have copies of key and value heads.
  SmallSpace space = small_spaces().front();
  space.fixed = {};
  space.overrides.push_back(fmt::format("model.num_query_groups={}", groups));
  const TemporaryFolder folder;
  const SearchBase base = prepare_search(request_of(space, folder / "model.json"));
  std::set<std::vector<std::string>> searched_ones;
  for (const Candidate& candidate : enumerate_candidates(compile(base.scenario), {})) {
    searched_ones.insert(overrides_of(candidate));
  }
  int legal = 0;
  for (const Candidate& candidate : lattice(space.gpus, space.batch)) {
    // The same run as 1f1b.
    if (candidate.schedule == "interleaved_1f1b" && candidate.vpp == 1) continue;
    INFO(words_of(candidate));
    const bool accepted = is_accepted(base, candidate);
    if (accepted) ++legal;
    CHECK(accepted == (searched_ones.count(overrides_of(candidate)) == 1));
  }
  CHECK(legal > 100);
  const auto has_tp = [&](const std::vector<std::string>& one) {
    return std::count(one.begin(), one.end(), "parallelism.tp=8") == 1;
  };
  CHECK(std::any_of(searched_ones.begin(), searched_ones.end(), has_tp));
}

TEST_CASE(
    "slices of experts are searched where they are fixed, and where the reader accepts them") {
  SmallSpace space = small_space("experts in slices");
  space.fixed = {"tp=1,2,4",       "cp=1",
                 "pp=1,2",         "dp_replicate=1",
                 "zero_stage=0",   "schedule=none,1f1b",
                 "recompute=none", "micro_batch_size=1"};
  const TemporaryFolder folder;
  const SearchBase base = prepare_search(request_of(space, folder / "model.json"));
  const Experiment experiment = compile(base.scenario);
  FixedAxes fixed = base.fixed;
  const std::vector<Candidate> whole = enumerate_candidates(experiment, fixed);
  const auto is_cut = [](const Candidate& candidate) { return candidate.etp > 1; };
  CHECK(std::ranges::none_of(whole, is_cut));
  fix_axis("etp=1,2,3,4,5,6,8,16", fixed);
  const std::vector<Candidate> found = enumerate_candidates(experiment, fixed);
  std::size_t num_accepted = 0;
  for (Candidate candidate : whole) {
    for (const std::int64_t etp : {1, 2, 3, 4, 5, 6, 8, 16}) {
      candidate.etp = etp;
      INFO(words_of(candidate));
      const bool accepted = is_accepted(base, candidate);
      if (accepted) ++num_accepted;
      CHECK(accepted == (std::ranges::find(found, candidate) != found.end()));
    }
  }
  CHECK(num_accepted == found.size());
  CHECK(num_accepted > whole.size() + 10);
  // Neither biases nor whole matrices may be cut, and rows of tokens are no rows of experts.
  for (const char* setting : {"model.moe_expert_bias=true", "training.optimizer=muon",
                              "parallelism.expert_dispatch=per_node"}) {
    INFO(setting);
    space.overrides = {setting};
    const SearchBase other = prepare_search(request_of(space, folder / "model.json"));
    CHECK(std::ranges::none_of(enumerate_candidates(compile(other.scenario), fixed), is_cut));
  }
}

TEST_CASE("a candidate's place is its index in the list of all") {
  for (const SmallSpace& space : small_spaces()) {
    const TemporaryFolder folder;
    const SearchBase base = prepare_search(request_of(space, folder / "model.json"));
    const Experiment experiment = compile(base.scenario);
    const LayoutSpace layouts(experiment, base.fixed);
    const std::vector<Candidate> all = enumerate_candidates(experiment, base.fixed);
    REQUIRE(layouts.num_candidates() == all.size());
    LayoutPlace at;
    std::size_t num_seen = 0;
    for (at.block = 0; at.block < layouts.blocks().size(); ++at.block) {
      const LayoutBlock& block = layouts.blocks()[at.block];
      for (at.batch = 0; at.batch < block.batches.size(); ++at.batch) {
        const std::size_t schedules = block.batches[at.batch].schedules.size();
        for (at.schedule = 0; at.schedule < schedules; ++at.schedule) {
          for (at.data = 0; at.data < block.data.size(); ++at.data, ++num_seen) {
            CHECK(all.at(layouts.index(at)) == layouts.candidate(at));
          }
        }
      }
    }
    CHECK(num_seen == all.size());
  }
}

TEST_CASE("chunks cut the layers evenly where pp does, and else as few as their largest needs") {
  struct Chunks {
    const char* model;
    const char* pp;
    std::set<std::int64_t> vpp;
  };
  // 80 = 8 x 10. 94 = 8 x 11 + 6: 12, 6, 4 and 3 layers at most. 61 = 16 x 3 + 13: 4 and 2.
  const Chunks expected[] = {{"llama3-70b", "8", {2, 5, 10}},
                             {"qwen3-235b-a22b", "8", {2, 3, 4, 6}},
                             {"deepseek-v3", "16", {2}}};
  for (const Chunks& each : expected) {
    INFO(each.model);
    SearchRequest request;
    request.model = each.model;
    request.gpu = "h100";
    request.num_gpus = 256;
    request.global_batch_size = 4096;
    request.fixed = {fmt::format("pp={}", each.pp),
                     "tp=1",
                     "cp=1",
                     "zero_stage=1",
                     "schedule=interleaved_1f1b",
                     "recompute=none",
                     "micro_batch_size=1"};
    const SearchBase base = prepare_search(request);
    std::set<std::int64_t> found;
    for (const Candidate& candidate : enumerate_candidates(compile(base.scenario), base.fixed)) {
      if (!found.insert(candidate.vpp).second) continue;
      INFO(words_of(candidate));
      CHECK(is_accepted(base, candidate));
    }
    CHECK(found == each.vpp);
  }
}

// It was an error once.
TEST_CASE("a space of millions of candidates is counted without a list of them") {
  SearchRequest request;
  request.model = "deepseek-v3-like";
  request.gpu = "h100";
  request.num_gpus = 8192;
  request.global_batch_size = 15360;
  const SearchBase base = prepare_search(request);
  const LayoutSpace layouts(compile(base.scenario), base.fixed);
  CHECK(layouts.num_candidates() > 2'000'000);
  const LayoutBlock& last = layouts.blocks().back();
  const LayoutPlace end{
      .block = static_cast<std::uint32_t>(layouts.blocks().size() - 1),
      .batch = static_cast<std::uint32_t>(last.batches.size() - 1),
      .schedule = static_cast<std::uint32_t>(last.batches.back().schedules.size() - 1),
      .data = static_cast<std::uint32_t>(last.data.size() - 1)};
  CHECK(layouts.index(end) == layouts.num_candidates() - 1);
}

TEST_CASE("all candidates of the small spaces can be run") {
  for (const SmallSpace& space : small_spaces()) {
    const TemporaryFolder folder;
    const SearchBase base = prepare_search(request_of(space, folder / "model.json"));
    for (const Candidate& candidate : enumerate_candidates(compile(base.scenario), base.fixed)) {
      INFO(space.name << ": " << words_of(candidate));
      CHECK(is_accepted(base, candidate));
    }
  }
}

TEST_CASE("what is fixed is one of its values") {
  SmallSpace space = small_spaces().front();
  space.fixed = {"tp=2,4", "schedule=1f1b"};
  space.overrides = {"parallelism.zero_stage=1", "training.recompute=full"};
  const TemporaryFolder folder;
  const SearchBase base = prepare_search(request_of(space, folder / "model.json"));
  const std::vector<Candidate> found = enumerate_candidates(compile(base.scenario), base.fixed);
  REQUIRE(!found.empty());
  for (const Candidate& candidate : found) {
    CHECK((candidate.tp == 2 || candidate.tp == 4));
    CHECK(candidate.schedule == "1f1b");
    CHECK(candidate.zero_stage == 1);
    CHECK(candidate.recompute == Recompute::full);
  }
}

TEST_CASE("a mistake in what is fixed is explained") {
  FixedAxes fixed;
  try {
    fix_axis("schedul=1f1b", fixed);
    FAIL("it must be refused");
  } catch (const UsageError& error) {
    CHECK(error.code() == "E1325");
    CHECK(error.fix().find("did you mean \"schedule\"?") != std::string::npos);
  }
  SmallSpace space = small_spaces().front();
  space.fixed = {"tp=5"};
  const TemporaryFolder folder;
  const SearchBase base = prepare_search(request_of(space, folder / "model.json"));
  CHECK_THROWS_AS(enumerate_candidates(compile(base.scenario), base.fixed), UsageError);
}

}  // namespace shardsim::test
